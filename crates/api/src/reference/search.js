// Narrows the page to what contains every word of the search. The page works without it.
(() => {
  const box = document.getElementById("search");
  const menu = document.getElementById("menu");
  const none = document.getElementById("none");
  const parts = [...document.querySelectorAll("article, details.type")];
  const links = [...document.querySelectorAll("nav li")];
  const sections = [...document.querySelectorAll("main > section")];
  const texts = new Map(parts.map((part) => [part, part.textContent.toLowerCase()]));
  const filter = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const part of parts) part.hidden = !words.every((word) => texts.get(part).includes(word));
    for (const link of links) {
      const target = document.getElementById(link.dataset.for);
      link.hidden = Boolean(target && target.hidden);
    }
    for (const section of sections) {
      section.hidden = words.length > 0 && !section.querySelector("article:not([hidden]), details.type:not([hidden])");
    }
    none.hidden = parts.some((part) => !part.hidden);
  };
  const show = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.closest("[hidden]")) { box.value = ""; filter(); }
    if (target.matches("details")) target.open = true;
    target.scrollIntoView();
  };
  box.hidden = false;
  box.addEventListener("input", filter);
  addEventListener("hashchange", show);
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target === box) return;
    event.preventDefault();
    box.focus();
  });
  for (const link of document.querySelectorAll("nav a")) {
    link.addEventListener("click", () => { menu.checked = false; });
  }
})();
