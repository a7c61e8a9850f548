// uPlot draws with as many pixels as the screen has. A page that is printed needs more, and print
// events come too late for it to notice, so canvases are drawn with two pixels to a point at least.
// This must be imported before uPlot, which reads the ratio once.
const ratio = Math.max(2, window.devicePixelRatio || 1);
Object.defineProperty(window, "devicePixelRatio", { configurable: true, get: () => ratio });
