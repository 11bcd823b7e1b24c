// The search of the theme asks a server for its index, which a page from the disk cannot do.
if (location.protocol === "file:") {
  for (const field of document.querySelectorAll(".md-search__input")) {
    field.disabled = true;
    field.placeholder = "Search needs a server: mkdocs serve";
  }
}
