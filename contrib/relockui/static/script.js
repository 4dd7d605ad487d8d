// Fetches the same page again and puts what is marked data-live in place of what is shown.
"use strict";
(() => {
  const every = 2000;
  const patience = 10000;
  const pause = document.getElementById("pause");
  const gone = document.getElementById("gone");
  let paused = false;

  // A link that has the focus keeps it, though another element takes its place.
  const put = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html");
    const focused = document.activeElement?.getAttribute("href");
    for (const old of document.querySelectorAll("[data-live]")) {
      const fresh = next.getElementById(old.id);
      if (!fresh || fresh.innerHTML === old.innerHTML) continue; // what is said once is not said again
      const had = focused && old.contains(document.activeElement);
      old.replaceChildren(...fresh.childNodes);
      if (had) [...old.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused)?.focus({ preventScroll: true });
    }
  };

  // Who marks text wants to copy it.
  const busy = () => paused || document.hidden || !getSelection().isCollapsed;

  const look = async () => {
    if (!busy()) {
      try {
        const answer = await fetch(location.href, { signal: AbortSignal.timeout(patience) });
        const text = await answer.text();
        if (!busy()) put(text);
        gone.hidden = true;
      } catch {
        gone.hidden = false;
      }
    }
    setTimeout(look, every);
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    document.body.classList.toggle("paused", paused);
  });
  document.getElementById("sort")?.addEventListener("change", (event) => event.target.form.requestSubmit());
  setTimeout(look, every);
})();
