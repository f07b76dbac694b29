// Owns formulas: writes TeX as MathML, which browsers lay out by themselves. What is not TeX stays as it is.
import temml from "./lib/temml.js";
import { DOMPurify } from "./lib/base.js";

export function typeset(elements) {
  for (const element of elements) {
    const source = element.textContent;
    try {
      const written = temml.renderToString(source, {
        displayMode: element.classList.contains("display"),
        throwOnError: true,
      });
      // The page's policy lets no style attribute in; a browser would complain of each.
      const plain = written.replace(/ style="[^"]*"/g, "");
      element.innerHTML = DOMPurify.sanitize(plain, { USE_PROFILES: { mathMl: true }, ADD_ATTR: ["form"] });
      element.title = source;
      element.classList.remove("maths");
      element.classList.add("formula");
    } catch {
      element.title = "This formula could not be read; it is shown as it was written.";
    }
  }
}
