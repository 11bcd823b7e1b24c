// A correlation matrix on a canvas: hover, keyboard, zoom. A cell stands for one pair, or for a block of pairs where the
// matrix has more features than the canvas has room for.
const STOPS = {
  light: [[127, 59, 0], [224, 150, 66], [246, 245, 241], [104, 160, 212], [11, 60, 125]],
  dark: [[255, 184, 102], [163, 94, 30], [32, 36, 42], [45, 106, 170], [150, 202, 255]],
};
const UNKNOWN = { light: [208, 208, 203], dark: [70, 72, 76] };
const MOST_CELLS = 160;
const FEWEST_FEATURES = 12;
const LABELED = 40;
const LEAST_CELL = 8;
// Of slanted names, which lie closer to each other than those of rows.
const LEAST_SLANTED = 11;

const scheme = () => {
  const root = document.documentElement;
  if (root.dataset.printing) return "light";
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  return dark ? "dark" : "light";
};

const color = (r) => {
  if (Number.isNaN(r)) return UNKNOWN[scheme()];
  const stops = STOPS[scheme()];
  const place = (Math.max(-1, Math.min(1, r)) + 1) / 2 * (stops.length - 1);
  const first = Math.min(stops.length - 2, Math.floor(place));
  return stops[first].map((value, k) => value + (place - first) * (stops[first + 1][k] - value));
};

const unpack = (text, type) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new type(bytes.buffer);
};

const shown = (value) => Number(value.toPrecision(2)).toString();
const signed = (r) => (r < 0 ? "−" : "+") + Math.abs(r).toFixed(3);

class Matrix {
  constructor(data) {
    this.size = data.order.length;
    this.clustered = data.order;
    this.known = data.known;
    this.step = data.step;
    this.clear = data.clear;
    this.codes = unpack(data.r, Int16Array);
    this.missing = -32768;
    this.noises = data.noise === null ? null : unpack(data.noise, Uint16Array);
    this.scale = [Math.log(data.range[0]), Math.log(data.range[1] / data.range[0]) / 65534];
  }

  place(i, j) {
    const [a, b] = i < j ? [i, j] : [j, i];
    return a * (2 * this.size - a - 1) / 2 + (b - a - 1);
  }

  r(i, j) {
    if (i === j) return this.known[i] ? 1 : NaN;
    const code = this.codes[this.place(i, j)];
    return code === this.missing ? NaN : code * this.step;
  }

  noise(i, j) {
    if (i === j || this.noises === null) return NaN;
    const code = this.noises[this.place(i, j)];
    return code === 0 ? NaN : Math.exp(this.scale[0] + (code - 1) * this.scale[1]);
  }
}

class HeatMap {
  constructor(figure, names, data) {
    this.names = names;
    this.matrix = new Matrix(data);
    this.canvas = figure.querySelector(".map");
    this.readout = figure.querySelector(".readout");
    this.legend = figure.querySelector(".legend");
    this.fade = figure.querySelector(".fade");
    this.order = this.matrix.clustered;
    this.cursor = null;
    this.show(0, 0, this.matrix.size);
    this.listen(figure);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  // The window: `span` features from `top` down and from `left` to the right, in cells of `block` features.
  show(top, left, span) {
    const size = this.matrix.size;
    this.span = Math.max(Math.min(FEWEST_FEATURES, size), Math.min(size, Math.round(span)));
    this.block = Math.ceil(this.span / MOST_CELLS);
    this.cells = Math.ceil(this.span / this.block);
    this.top = Math.max(0, Math.min(size - this.span, Math.round(top)));
    this.left = Math.max(0, Math.min(size - this.span, Math.round(left)));
    this.base = null;
    this.draw();
  }

  zoom(factor) {
    const middle = this.cursor === null ? [this.cells / 2, this.cells / 2] : this.cursor.map((cell) => cell + 0.5);
    const [row, column] = [this.top + middle[0] * this.block, this.left + middle[1] * this.block];
    const span = this.span / factor;
    this.show(row - span / 2, column - span / 2, span);
    if (this.cursor !== null) this.point(this.cellOf(row, this.top), this.cellOf(column, this.left));
  }

  cellOf(feature, start) {
    return Math.max(0, Math.min(this.cells - 1, Math.floor((feature - start) / this.block)));
  }

  features(cell, start) {
    const first = start + cell * this.block;
    return this.order.slice(first, Math.min(first + this.block, start + this.span));
  }

  // Mean and strongest pair of a block; a block of one pair has both the same.
  summary(row, column) {
    let [sum, count, best, pair] = [0, 0, NaN, null];
    for (const i of this.features(row, this.top)) {
      for (const j of this.features(column, this.left)) {
        if (i === j && this.block > 1) continue;
        const r = this.matrix.r(i, j);
        if (Number.isNaN(r)) continue;
        const hidden = this.fade?.checked && i !== j && Math.abs(r) < this.matrix.clear * this.matrix.noise(i, j);
        sum += hidden ? 0 : r;
        count += 1;
        if (hidden && this.block > 1) continue;
        if (!(Math.abs(r) <= Math.abs(best))) [best, pair] = [r, [i, j]];
      }
    }
    return { mean: count ? sum / count : NaN, best, pair };
  }

  paint() {
    const means = Float64Array.from({ length: this.cells ** 2 }, (_, place) => (
      this.summary(Math.floor(place / this.cells), place % this.cells).mean
    ));
    // Means of blocks are small, so their colors span less than −1 to 1; the legend says how much.
    const sizes = means.map(Math.abs).filter((size) => !Number.isNaN(size)).sort();
    this.limit = this.block === 1 ? 1 : Math.max(0.05, sizes[Math.floor(0.995 * sizes.length)] ?? 1);
    const image = new ImageData(this.cells, this.cells);
    means.forEach((mean, place) => image.data.set([...color(mean / this.limit), 255], 4 * place));
    this.base = document.createElement("canvas");
    this.base.width = this.base.height = this.cells;
    this.base.getContext("2d").putImageData(image, 0, 0);
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    if (this.base === null) this.paint();
    const labeled = this.span <= LABELED && 0.7 * width >= LEAST_CELL * this.cells;
    this.margin = labeled ? Math.min(150, 0.3 * width) : 0;
    this.side = width - this.margin;
    this.slanted = labeled && this.side >= LEAST_SLANTED * this.cells;
    const height = this.side + (this.slanted ? 0.62 * this.margin : 0);
    const density = devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    const pen = this.canvas.getContext("2d");
    pen.scale(density, density);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.base, this.margin, 0, this.side, this.side);
    const style = getComputedStyle(this.canvas);
    if (labeled) this.label(pen, style);
    if (this.cursor !== null) this.mark(pen, style);
    this.drawLegend();
  }

  label(pen, style) {
    const cell = this.side / this.cells;
    const size = Math.max(9, Math.min(13, 0.7 * cell));
    pen.fillStyle = style.getPropertyValue("--soft");
    pen.font = `${size}px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (let place = 0; place < this.cells; place++) {
      const middle = (place + 0.5) * cell;
      pen.fillText(this.fitted(pen, this.order[this.top + place], this.margin - 8), this.margin - 6, middle);
      if (!this.slanted) continue;
      pen.save();
      pen.translate(this.margin + middle, this.side + 7);
      pen.rotate(-Math.PI / 4);
      pen.fillText(this.fitted(pen, this.order[this.left + place], 0.8 * this.margin), 0, 0);
      pen.restore();
    }
  }

  fitted(pen, feature, room) {
    // Isolated, so that a name in another writing direction stays at its place.
    const letters = [...this.names[feature]];
    let [kept, text] = [letters.length, letters.join("")];
    // The middle is left out: names often differ at their ends alone.
    while (kept > 1 && pen.measureText(text).width > room) {
      kept -= 1;
      const head = Math.ceil((2 * kept) / 3);
      text = `${letters.slice(0, head).join("")}…${letters.slice(letters.length - kept + head).join("")}`;
    }
    return `\u2068${text}\u2069`;
  }

  mark(pen, style) {
    const cell = this.side / this.cells;
    const [row, column] = this.cursor;
    pen.strokeStyle = style.getPropertyValue("--paper");
    pen.lineWidth = 4;
    pen.strokeRect(this.margin + column * cell, row * cell, cell, cell);
    pen.strokeStyle = style.getPropertyValue("--ink");
    pen.lineWidth = 2;
    pen.strokeRect(this.margin + column * cell, row * cell, cell, cell);
  }

  drawLegend() {
    const pen = this.legend.getContext("2d");
    this.legend.width = 201;
    this.legend.height = 1;
    for (let place = 0; place <= 200; place++) {
      pen.fillStyle = `rgb(${color(place / 100 - 1).join(" ")})`;
      pen.fillRect(place, 0, 1, 1);
    }
    const end = this.limit === 1 ? "1" : `${shown(this.limit)} (means of blocks)`;
    [this.legend.previousElementSibling.textContent, this.legend.nextElementSibling.textContent] = [
      `−${shown(this.limit)}`, end,
    ];
  }

  point(row, column) {
    if (this.cursor !== null && this.cursor[0] === row && this.cursor[1] === column) return;
    this.cursor = [row, column];
    this.tell(row, column);
    this.draw();
  }

  tell(row, column) {
    const { mean, best, pair } = this.summary(row, column);
    const name = (feature) => Object.assign(document.createElement("bdi"), { textContent: this.names[feature] });
    const bold = (text) => Object.assign(document.createElement("b"), { textContent: text });
    const [rows, columns] = [this.features(row, this.top), this.features(column, this.left)];
    if (this.block > 1) {
      const range = (list) => (list.length > 1 ? [name(list[0]), " to ", name(list.at(-1))] : [name(list[0])]);
      const found = pair === null ? [", nothing stands out of the noise"] : [", strongest ", bold(signed(best)), " (", name(pair[0]), " × ", name(pair[1]), ")"];
      this.readout.replaceChildren(
        ...range(rows), " × ", ...range(columns), ": mean ", bold(Number.isNaN(mean) ? "unknown" : signed(mean)), ...found,
      );
      return;
    }
    const [r, noise] = [this.matrix.r(rows[0], columns[0]), this.matrix.noise(rows[0], columns[0])];
    const told = Number.isNaN(r) ? "unknown" : signed(r);
    const around = Number.isNaN(noise) ? "" : `, noise std ${shown(noise)}`;
    this.readout.replaceChildren(name(rows[0]), " × ", name(columns[0]), ": ", bold(told), around);
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const cell = this.side / this.cells;
    const [column, row] = [event.clientX - box.left - this.margin, event.clientY - box.top].map((p) => Math.floor(p / cell));
    const inside = row >= 0 && column >= 0 && row < this.cells && column < this.cells;
    return inside ? [row, column] : null;
  }

  move(down, across) {
    let [row, column] = this.cursor ?? [0, 0];
    if (this.cursor !== null) [row, column] = [row + down, column + across];
    const [top, left] = [this.top, this.left];
    // Beyond the border the window moves along.
    if (row < 0 || row >= this.cells) this.show(this.top + down * this.block, this.left, this.span);
    if (column < 0 || column >= this.cells) this.show(this.top, this.left + across * this.block, this.span);
    const moved = top !== this.top || left !== this.left;
    if (moved) this.cursor = null;
    this.point(...[row, column].map((cell) => Math.max(0, Math.min(this.cells - 1, cell))));
  }

  key(event) {
    const keys = {
      ArrowUp: () => this.move(-1, 0),
      ArrowDown: () => this.move(1, 0),
      ArrowLeft: () => this.move(0, -1),
      ArrowRight: () => this.move(0, 1),
      Home: () => this.point(0, 0),
      End: () => this.point(this.cells - 1, this.cells - 1),
      "+": () => this.zoom(4),
      Enter: () => this.zoom(4),
      "-": () => this.zoom(1 / 4),
      0: () => this.all(),
    };
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  }

  all() {
    this.cursor = null;
    this.show(0, 0, this.matrix.size);
  }

  repaint() {
    this.base = null;
    this.draw();
  }

  listen(figure) {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => {
      const cell = this.at(event);
      if (cell !== null) this.point(...cell);
    });
    canvas.addEventListener("click", (event) => {
      const cell = this.at(event);
      if (cell === null) return;
      this.point(...cell);
      if (this.block > 1) this.zoom(4);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
    figure.querySelector(".zoom-in").addEventListener("click", () => this.zoom(4));
    figure.querySelector(".zoom-out").addEventListener("click", () => this.zoom(1 / 4));
    figure.querySelector(".zoom-all").addEventListener("click", () => this.all());
    figure.querySelector(".zoom").hidden = this.matrix.size <= 2 * FEWEST_FEATURES;
    this.fade?.addEventListener("change", () => this.repaint());
    for (const choice of figure.querySelectorAll(".switch input")) {
      choice.addEventListener("change", () => {
        this.order = choice.value === "schema" ? this.matrix.clustered.map((_, place) => place) : this.matrix.clustered;
        this.cursor = null;
        this.repaint();
      });
    }
    document.addEventListener("themechange", () => this.repaint());
  }
}
