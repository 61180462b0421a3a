// Drawings on buttons. Each button with one has its meaning as its name and as its tooltip.

const SHAPES = {
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  retry: "M20 12a8 8 0 1 1-2.5-5.800M20 3v5h-5",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  link: "M10 14l4-4M8 11l-2 2a3.500 3.500 0 0 0 5 5l2-2M16 13l2-2a3.500 3.500 0 0 0-5-5l-2 2",
  up: "M3 11h4v9H3zM7 12l4-8a2 2 0 0 1 3 2l-1 4h6a2 2 0 0 1 2 2.500l-1.500 6A2 2 0 0 1 17.500 20H7",
  down: "M3 4h4v9H3zM7 12l4 8a2 2 0 0 0 3-2l-1-4h6a2 2 0 0 0 2-2.500l-1.500-6A2 2 0 0 0 17.500 4H7",
  remove: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
};
const SVG = "http://www.w3.org/2000/svg";

/** Returns a drawing, which has no meaning for a screen reader. */
export function icon(name) {
  const drawing = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  for (const [key, value] of Object.entries({ class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" })) drawing.setAttribute(key, value);
  path.setAttribute("d", SHAPES[name]);
  drawing.append(path);
  return drawing;
}
