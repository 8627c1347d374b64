import { act, ask, askJson, finish, onBack } from "./server.js";

/* Input and server responses are inserted as text, never as markup. */

const PREVIEW_ROWS = 5;

const $ = (id) => document.getElementById(id);
let facts = null; // the server's description of its model
let explained = null;
const unknownDomain = $("domain").options[0]; // offered only if the model predicts without a domain

/* Building pieces of the page */

function make(tag, { text, className, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const percent = (p) => `${(100 * p).toFixed(1)}\u202f%`;
const signed = (value) => (value === 0 ? "0" : `${value > 0 ? "+" : "\u2212"}${Math.abs(value).toFixed(2)}`);
const counted = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

function bar(p, isBest) {
  const fill = make("span");
  fill.style.width = `${100 * p}%`;
  return make("span", { className: isBest ? "bar best" : "bar", "aria-hidden": "true" }, fill);
}

function measure(p) {
  return make("div", { className: "measure" }, bar(p, true), make("span", { className: "number", text: percent(p) }));
}

function classTag(label) {
  const dot = facts.classes.indexOf(label) % 6;
  return make("span", { className: `class dot-${dot}`, text: label });
}

function domainCell(name, isLabelled) {
  const cell = make("th", { scope: "row", text: name });
  if (!isLabelled) cell.append(" ", make("span", { className: "tag", text: "no labels" }));
  return cell;
}

function fillNotes(list, notes) {
  list.replaceChildren(...notes.map((note) => make("li", { text: note })));
}

/* A single text */

function textOrNull() {
  const text = $("text").value;
  let fault = "";
  if (!text.trim()) fault = "Enter a text first.";
  else if (facts && [...text].length > facts.limits.max_text_length) {
    fault = `The text is longer than ${facts.limits.max_text_length.toLocaleString("en")} characters.`;
  }
  $("text").setAttribute("aria-invalid", String(Boolean(fault)));
  $("text-message").textContent = fault;
  if (fault) $("text").focus();
  return fault ? null : text;
}

async function predict() {
  const text = textOrNull();
  if (text === null) return;
  const chosen = $("domain").value || null;
  await act("predict", { busy: [$("predict"), $("answer")], message: $("text-message") }, async (isLatest) => {
    await needFacts();
    // Before the model was loaded there was no domain to choose.
    const domain = chosen ?? (facts.answers_without_domain ? null : $("domain").value);
    const { predictions } = await askJson("v1/predict", { text, domain });
    if (!isLatest()) return;
    showPrediction(predictions[0], domain);
    $("target").value = predictions[0].label;
    explain(text, domain, predictions[0].label); // slower, so the prediction does not wait for it
  });
}

function showPrediction(prediction, asked) {
  $("answer-empty").hidden = true;
  $("answer-full").hidden = false;
  $("label").textContent = prediction.label;
  $("confidence").textContent = percent(prediction.confidence);
  $("answer-domain").textContent =
    prediction.domain === null ? "Domain unknown: shared features only" : `Domain: ${prediction.domain}`;
  // No warning for a user who chose "unknown".
  fillNotes($("answer-notes"), asked === null ? [] : (prediction.warnings ?? []));
  const rows = Object.entries(prediction.probabilities).sort((one, other) => other[1] - one[1]);
  $("bars").replaceChildren(
    ...rows.flatMap(([name, p]) => {
      const weight = name === prediction.label ? "isbest" : "";
      return [
        make("span", { text: name, className: weight }),
        bar(p, name === prediction.label),
        make("span", { text: percent(p), className: `number ${weight}` }),
      ];
    }),
  );
}

async function explain(text, domain, target) {
  explained = null;
  $("words-full").hidden = true;
  await act("explain", { busy: [$("explanation")], message: $("words-message") }, async (isLatest) => {
    const explanation = await askJson("v1/explain", { text, domain, target });
    if (!isLatest()) return;
    explained = { ...explanation, asked: domain };
    showWords();
  });
}

function showWords() {
  const { text, words, target, n_words: all } = explained;
  const part = document.querySelector("input[name=part]:checked").value;
  const characters = [...text]; // offsets count code points
  const between = (start, end) => characters.slice(start, end).join("");
  const strongest = Math.max(...words.flatMap((word) => [word.total, word.shared, word.private].map(Math.abs)), 1e-9);
  const shown = [];
  let end = 0;
  for (const word of words) {
    shown.push(between(end, word.start));
    const strength = Math.abs(word[part]) / strongest;
    const numbers = `${signed(word.total)} (shared ${signed(word.shared)}, private ${signed(word.private)})`;
    const span = make("span", { text: between(word.start, word.end), title: `${numbers} for ${target}` });
    const side = word[part] > 0 ? "speaks-for" : "speaks-against";
    span.className = strength > 0.02 ? `word ${side}` : "word";
    span.style.setProperty("--strength", strength.toFixed(3));
    shown.push(span);
    end = word.end;
  }
  shown.push(between(end));
  $("words").replaceChildren(...shown);
  const first = words.length < all ? `The first ${words.length.toLocaleString("en")} of ${counted(all, "word")}. ` : "";
  const nothing = words.every((word) => Math.abs(word[part]) < 1e-6);
  const why =
    part === "private"
      ? "Private features contribute nothing here: the domain is unknown or had no labels, or the model has none."
      : "No word changes the prediction.";
  $("words-note").textContent = first + (nothing ? why : "");
  $("words-table").querySelector("caption").textContent = `Contribution of each word to the log-odds of ${target}`;
  $("words-table").tBodies[0].replaceChildren(
    ...words.map((word) =>
      make(
        "tr",
        {},
        make("th", { scope: "row", text: word.text }),
        ...["total", "shared", "private"].map((name) => make("td", { className: "number", text: signed(word[name]) })),
      ),
    ),
  );
  $("words-full").hidden = false;
}

async function compare() {
  const text = textOrNull();
  if (text === null) return;
  await act("compare", { busy: [$("compare"), $("comparison")], message: $("text-message") }, async (isLatest) => {
    await needFacts();
    const domains = facts.domains.map((domain) => domain.name);
    if (facts.answers_without_domain) domains.push(null);
    const predictions = [];
    for (let start = 0; start < domains.length; start += facts.limits.max_texts) {
      const part = domains.slice(start, start + facts.limits.max_texts);
      const body = { texts: part.map(() => text), domains: part };
      predictions.push(...(await askJson("v1/predict", body)).predictions);
    }
    if (!isLatest()) return;
    showComparison(predictions);
  });
}

function showComparison(predictions) {
  const labels = new Set(predictions.map((prediction) => prediction.label));
  const answers = labels.size === 1 ? `same prediction, ${predictions[0].label}` : "predictions differ";
  const unknown = predictions.length > facts.domains.length ? " and unknown domain" : "";
  $("comparison-said").textContent = `${counted(facts.domains.length, "domain")}${unknown}: ${answers}.`;
  $("comparison-table").tBodies[0].replaceChildren(
    ...predictions.map((prediction, i) => {
      const all = Object.entries(prediction.probabilities).map(([name, p]) => `${name} ${percent(p)}`);
      const known = facts.domains[i];
      return make(
        "tr",
        { title: all.join(", ") },
        known ? domainCell(known.name, known.labelled) : domainCell("Unknown domain", true),
        make("td", {}, classTag(prediction.label)),
        make("td", {}, measure(prediction.confidence)),
      );
    }),
  );
  $("comparison").hidden = false;
  $("comparison").scrollIntoView({ block: "nearest" });
}

/* A table */

async function predictFile(file) {
  const message = $("file-message");
  message.textContent = "";
  $("file-full").hidden = true;
  if (facts && file.size > facts.limits.max_body_bytes) {
    message.textContent = `${file.name} has ${counted(file.size, "byte")}, and this server accepts at most ${counted(
      facts.limits.max_body_bytes, "byte")}. Split it, or use "multidomain predict" on the command line.`;
    return;
  }
  let content;
  try {
    content = await file.arrayBuffer(); // before the request, so that an unreadable file is not mistaken for an unreachable server
  } catch {
    message.textContent = `${file.name} cannot be read. Choose it again.`;
    return;
  }
  // A hint names settings as {text_column=NAME}; on this page they are form fields.
  const fields = { text_column: "the field “Text column”", encoding: "the field “Encoding”" };
  const reword = ({ message, details }) => {
    const hint = (details?.hint ?? "").replace(/\{(\w+)(=[^}]*)?\}/g, (_, name) => fields[name] ?? name);
    return (details?.problem ? `${details.problem} ${hint}`.trim() : message).replaceAll("body.csv", file.name);
  };
  await act("file", { busy: [$("drop")], message, reword }, async (isLatest) => {
    const query = new URLSearchParams({ encoding: $("encoding").value });
    if ($("file-domain").value) query.set("domain", $("file-domain").value);
    if ($("text-column").value.trim()) query.set("text_column", $("text-column").value.trim());
    const headers = { "Content-Type": "text/csv" };
    const response = await ask(`v1/predict/csv?${query}`, { method: "POST", headers, body: content });
    const table = await response.blob();
    if (!isLatest()) return;
    await showTable(file.name, table, response.headers);
  });
}

async function showTable(name, table, headers) {
  const rows = Number(headers.get("Multidomain-Rows"));
  const empty = Number(headers.get("Multidomain-Rows-Without-Text"));
  $("file-said").textContent = `${name}: ${counted(rows, "row")}, ${counted(rows - empty, "prediction")}.`;
  const notes = JSON.parse(headers.get("Multidomain-Warnings") ?? "[]");
  if (empty) notes.unshift(`${counted(empty, "row")} without text got no prediction.`);
  fillNotes($("file-notes"), notes);
  const link = $("download");
  if (link.href) URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(table);
  link.download = `${name.replace(/\.csv$/i, "")}-predicted.csv`;
  link.textContent = `Download ${link.download}`;
  const [header, ...first] = csvRows(await table.slice(0, 2 ** 20).text(), PREVIEW_ROWS + 1);
  const order = (cells) => [...cells.slice(-2), ...cells.slice(0, -2)]; // added columns first
  const preview = $("preview");
  preview.caption.textContent = `The first ${counted(first.length, "row")}`;
  preview.tHead.replaceChildren(make("tr", {}, ...order(header).map((text) => make("th", { scope: "col", text }))));
  preview.tBodies[0].replaceChildren(
    ...first.map((cells) => make("tr", {}, ...order(cells).map((text) => make("td", { text: text.slice(0, 300) })))),
  );
  $("file-full").hidden = false;
}

function csvRows(text, most) {
  const rows = [[]];
  const cell = /(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n|$)/gy;
  for (let found = cell.exec(text); found && rows.length <= most; found = cell.exec(text)) {
    rows.at(-1).push(found[1] === undefined ? found[2] : found[1].replaceAll('""', '"'));
    if (found[3] === "\n") rows.push([]);
    if (found[3] === "" || cell.lastIndex >= text.length) break;
  }
  return rows.filter((row) => row.length).slice(0, most);
}

/* The model */

async function needFacts() {
  if (facts) return;
  facts = await askJson("v1/model");
  $("token-form").hidden = true;
  showFacts();
}

async function loadFacts() {
  facts = null; // the server may have restarted with another model
  await act("facts", { busy: [], message: $("token-message") }, needFacts);
  if (facts) await finish();
}

function showFacts() {
  const { name, method, version, classes, domains, accuracy } = facts;
  $("model-line").textContent = `${name} · ${method} · ${counted(domains.length, "domain")} · ${classes.length} classes`;
  const domainFirst = facts.answers_without_domain ? [unknownDomain] : [];
  for (const [select, first] of [[$("domain"), domainFirst], [$("file-domain"), [$("file-domain").options[0]]]]) {
    const chosen = select.value;
    const options = domains.map((domain) =>
      make("option", { value: domain.name, text: domain.name + (domain.labelled ? "" : " (no labels)") }),
    );
    select.replaceChildren(...first, ...options);
    select.value = domains.some((domain) => domain.name === chosen) ? chosen : select.options[0].value;
  }
  $("target").replaceChildren(...classes.map((label) => make("option", { value: label, text: label })));
  const list = { Method: method, Classes: classes.join(", "), Version: `multidomain ${version}` };
  if (accuracy !== null) list["Accuracy, mean of domains"] = percent(accuracy);
  $("facts-list").replaceChildren(
    ...Object.entries(list).flatMap(([term, value]) => [make("dt", { text: term }), make("dd", { text: value })]),
  );
  $("facts-table").tBodies[0].replaceChildren(
    ...domains.map(({ name: domain, labelled, test }) =>
      make(
        "tr",
        {},
        domainCell(domain, labelled),
        make("td", {}, test ? measure(test.accuracy) : "not measured"),
        make("td", { className: "number", text: test ? test.rows.toLocaleString("en") : "" }),
      ),
    ),
  );
}

/* Event handlers */

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  predict();
});
$("compare").addEventListener("click", compare);
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    $("ask").requestSubmit();
  }
});
$("text").addEventListener("input", () => {
  const n = [...$("text").value].length;
  $("text-count").textContent = n ? counted(n, "character") : "";
  if ($("text").getAttribute("aria-invalid") === "true") textWasMended();
});

function textWasMended() {
  $("text").setAttribute("aria-invalid", "false");
  $("text-message").textContent = "";
}

$("parts").addEventListener("change", () => explained && showWords());
$("target").addEventListener("change", () => explained && explain(explained.text, explained.asked, $("target").value));
$("file").addEventListener("change", () => {
  const [file] = $("file").files;
  if (file) predictFile(file).finally(() => ($("file").value = "")); // so that the same file can be chosen again
});
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  $("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragenter" || kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) predictFile(event.dataTransfer.files[0]);
  });
}

onBack(loadFacts);
loadFacts();
