// What scrolls sideways can be reached with Tab, and then scrolled with the arrow keys. The theme does this for code and tables.
const WIDE = "mjx-container[display], .book-figure";

function reach() {
  for (const box of document.querySelectorAll(WIDE)) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

addEventListener("load", reach);
addEventListener("resize", reach);
addEventListener("toggle", reach, true);

// The theme's own look at code is of its width, and folded code has none: it looks again when the window changes, so say that it did.
const again = () => requestAnimationFrame(() => dispatchEvent(new Event("resize")));
addEventListener("toggle", again, true);
addEventListener("click", (event) => event.target.closest?.(".admonition.toggle") && again());

// A closed menu gives the focus back to the button that opened it.
addEventListener("DOMContentLoaded", () => {
  for (const [menu, button] of [["#pst-primary-sidebar-modal", ".primary-toggle"], ["#pst-secondary-sidebar-modal", ".secondary-toggle"]])
    document.querySelector(menu)?.addEventListener("close", () => document.querySelector(button)?.focus());
});
