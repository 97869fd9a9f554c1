"use strict";
(() => {
  const element = (id) => document.getElementById(id);
  const keys = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "tie", ArrowDown: "both_bad" };
  const voter = () => decodeURIComponent(location.hash.slice(1));
  let ballot = null;
  let busy = false;

  // Whatever fails, the voter is told whether the last vote counts; the server writes before it answers.
  async function talk(path, body) {
    if (busy) return;
    busy = true;
    try {
      const answer = body === undefined
        ? await fetch(`${path}?voter=${encodeURIComponent(voter())}`)
        : await fetch(path, {
            method: "POST",
            headers: { "Content-Type": "application/json" },
            body: JSON.stringify({ voter: voter(), ...body }),
          });
      const state = await answer.json();
      if (!answer.ok) throw new Error(state.error);
      show(state);
      problem("");
    } catch (error) {
      const lost = error instanceof TypeError;
      problem(lost ? "The server does not answer. The last vote was not counted; start it again and retry." : error.message);
      if (ballot === null) element("enter").hidden = false;
    } finally {
      busy = false;
      mark(null);
    }
  }

  function show(state) {
    ballot = state.ballot;
    element("enter").hidden = true;
    element("ballot").hidden = ballot === null;
    element("end").hidden = ballot !== null;
    element("controls").hidden = element("progress").hidden = false;
    if (ballot !== null) {
      for (const part of ["prompt", "left", "right"]) {
        element(part).innerHTML = ballot[part]; // safe: rendered by the server from a closed set of tags
      }
      for (const card of document.querySelectorAll(".card")) card.scrollTop = 0;
      scrollTo(0, 0);
    }
    element("agreement").replaceChildren(...state.agreement.map((line) => {
      const item = document.createElement("li");
      item.textContent = line;
      return item;
    }));
    for (const button of document.querySelectorAll("[data-choice]")) button.disabled = ballot === null;
    element("undo").disabled = !state.canUndo;
    element("bar").style.transform = `scaleX(${state.total ? state.done / state.total : 0})`;
    element("progress").setAttribute("aria-valuemax", state.total);
    element("progress").setAttribute("aria-valuenow", state.done);
    element("count").textContent = `${state.done} of ${state.total}`;
    element("who").textContent = voter();
  }

  function problem(text) {
    element("problem").textContent = text;
    element("problem").hidden = text === "";
  }

  function mark(choice) {
    element("left").parentElement.classList.toggle("chosen", choice === "left");
    element("right").parentElement.classList.toggle("chosen", choice === "right");
  }

  function vote(choice) {
    if (ballot === null || busy) return;
    mark(choice);
    talk("/api/vote", { ballot: ballot.id, choice });
  }

  function undo() {
    if (!element("undo").disabled) talk("/api/undo", {});
  }

  function enter() {
    ballot = null;
    if (voter()) {
      talk("/api/ballot");
      return;
    }
    for (const id of ["ballot", "end", "controls", "progress"]) element(id).hidden = true;
    element("enter").hidden = false;
    element("voter").focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT" || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in keys) {
      event.preventDefault();
      vote(keys[event.key]);
    } else if (event.key === "u" || event.key === "U" || event.key === "Backspace") {
      event.preventDefault();
      undo();
    }
  });
  for (const button of document.querySelectorAll("[data-choice]")) {
    button.addEventListener("click", () => vote(button.dataset.choice));
  }
  element("undo").addEventListener("click", undo);
  element("enter").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = element("voter").value.trim();
    if (name) location.hash = encodeURIComponent(name);
  });
  addEventListener("hashchange", enter);
  enter();
})();
