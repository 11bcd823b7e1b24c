# Writes the awkward table with R: haven, foreign and R's own CSV.  Run by make.sh.
library(haven)

table <- data.frame(
  id = 1:12,
  age = c(34, 51, -9, 28, NA, 63, 40, 19, 77, -9, 55, 46),
  sex = c(1, 2, 2, 9, 1, 2, NA, 1, 2, 1, 1, 2),
  city = c("Z\u00fcrich", "K\u00f6ln", "", "Bern", "Z\u00fcrich", "M\u00e1laga",
           "K\u00f6ln", "Bern", "", "Z\u00fcrich", "Bern; old", "K\u00f6ln"),
  height = c(1.825, 1.6, 1.71, NA, 1.955, 1.64, 1.8, 1.725, 1.5, 1.77, 1.68, 1.6),
  change = c(-12.5, 0, 3.25, -0.125, 1234.5, -1, NA, 2, -7.75, 0.5, 10, -3),
  born = as.Date(c("1990-02-28", "1973-12-31", NA, "1996-02-29", "2001-01-01", "1961-07-04",
                   "1984-10-10", "2005-05-05", "1947-03-09", "1988-08-08", NA, "1978-11-30"))
)
table$city <- enc2utf8(table$city)

write.csv(table, "awkward.csv", row.names = FALSE, na = "", fileEncoding = "UTF-8")
write.csv2(table, "semicolons-latin1.csv", row.names = FALSE, na = "", fileEncoding = "latin1")

labels <- c(male = 1, female = 2, refused = 9)
described <- table
described$sex <- labelled(table$sex, labels, label = "Sex of the respondent")
attr(described$age, "label") <- "Age in completed years"
attr(described$height, "label") <- "Height in meters"
attr(described$born, "label") <- "Date of birth"
write_dta(described, "awkward.dta", version = 14)

spss <- described
spss$sex <- labelled_spss(table$sex, labels, na_values = 9, label = "Sex of the respondent")
spss$age <- labelled_spss(table$age, c("not asked" = -9), na_range = c(-99, -1),
                          label = "Age in completed years")
write_sav(spss, "awkward.sav")

plain <- zap_labels(described)
write_xpt(plain, "awkward.xpt", version = 5, name = "AWKWARD")
suppressWarnings(write_sas(plain, "awkward.sas7bdat"))

old <- transform(table,
                 city = iconv(replace(city, city == "", NA), "UTF-8", "latin1"),
                 born = replace(format(born), is.na(born), "."))
foreign::write.dta(old, "foreign-latin1.dta", version = 10)

# Rows of ten numbers, so many that readers need several pages; compressed by make.sh.
set.seed(1)
few <- as.data.frame(lapply(setNames(1:10, paste0("x", 0:9)), function(i) round(runif(100, -1, 1), 3)))
for (size in list(c("small", 1600), c("large", 7600))) {
  rows <- few[rep(1:100, as.integer(size[2])), ]
  suppressWarnings(write_sas(rows, paste0("rows-", size[1], ".sas7bdat")))
}
# Names of columns that take more than one part of the heading, and texts.
many <- as.data.frame(lapply(setNames(1:40, paste0("column", 1:40)), function(i) rep(1:30, 100) * i))
many$text <- rep(c("", "a", "Z\u00fcrich", "b c"), 750)
suppressWarnings(write_sas(many, "many-columns.sas7bdat"))
