// Quizzes: "Check" says whether the chosen answer is right, and why, in the form's status region.
// Without this script the form's <details> holds the same answers and reasons.
function prepare(form) {
  const status = form.querySelector(".quiz-status");
  const answers = form.querySelector("details");
  form.querySelector("button").hidden = false;
  answers.hidden = true;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = form.querySelector("input:checked");
    const reason = chosen && form.querySelector(`[data-answer="${chosen.value}"]`);
    status.replaceChildren(); // emptied first: the same answer checked twice is announced twice
    setTimeout(() => {
      if (!reason) {
        status.textContent = "Choose an answer first.";
        return;
      }
      status.replaceChildren(...Array.from(reason.childNodes, (node) => node.cloneNode(true)));
      answers.hidden = false;
    }, 50);
  });
}

document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("form.quiz").forEach(prepare));
