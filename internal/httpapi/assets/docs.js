// Draws /openapi.json as a page. Nothing is loaded from anywhere else, and
// text never becomes markup.

const main = document.getElementById("main");
const index = document.getElementById("index");

function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "class") node.className = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

// schemaText writes a schema the way people write JSON examples.
function schemaText(spec, schema, indent = "", seen = []) {
  if (!schema) return "";
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    if (seen.includes(name)) return name;
    return schemaText(spec, spec.components.schemas[name], indent, [...seen, name]);
  }
  if (schema.oneOf) {
    return schema.oneOf.map((s) => schemaText(spec, s, indent, seen)).join(`\n${indent}or\n${indent}`);
  }
  if (schema["x-events"]) {
    return Object.entries(schema["x-events"])
      .map(([name, s]) => `event: ${name}\ndata: ${schemaText(spec, s, indent, seen)}`)
      .join("\n\n");
  }
  const types = [schema.type].flat().filter(Boolean);
  if (types.includes("array")) return `[ ${schemaText(spec, schema.items, indent, seen)}, … ]`;
  if (types.includes("object")) {
    const deeper = indent + "  ";
    const required = schema.required ?? [];
    const lines = Object.entries(schema.properties ?? {})
      .filter(([name]) => name !== "$schema")
      .map(([name, s]) => {
        const optional = required.includes(name) ? "" : "?";
        const note = s.description ? `   // ${s.description}` : "";
        return `${deeper}"${name}"${optional}: ${schemaText(spec, s, deeper, seen)}${note}`;
      });
    if (schema.additionalProperties && typeof schema.additionalProperties === "object") {
      lines.push(`${deeper}"…": ${schemaText(spec, schema.additionalProperties, deeper, seen)}`);
    }
    return lines.length ? `{\n${lines.join("\n")}\n${indent}}` : "{ … }";
  }
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(" | ");
  return (schema.format ? `${types.join(" | ")} (${schema.format})` : types.join(" | ")) || "anything";
}

function body(spec, title, content) {
  const nodes = [];
  for (const [media, { schema }] of Object.entries(content ?? {})) {
    nodes.push(el("h4", {}, `${title}: ${media}`), el("pre", {}, schemaText(spec, schema)));
  }
  return nodes;
}

function operation(spec, path, method, op) {
  const section = el("section", { class: "operation", id: op.operationId });
  section.append(
    el("h3", {}, el("span", { class: `method ${method}` }, method.toUpperCase()), el("span", { class: "path" }, path), op.summary ?? ""),
  );
  if (op.description) section.append(el("p", {}, op.description));
  const roles = op["x-roles"];
  section.append(el("p", { class: "roles" }, roles ? `Bearer token of ${roles.join(", ")}.` : "No token needed."));
  if (op.parameters?.length) {
    const table = el("table", {}, el("tr", {}, el("th", {}, "Parameter"), el("th", {}, "In"), el("th", {}, "Meaning")));
    for (const p of op.parameters) {
      const values = p.schema?.enum ? ` (${p.schema.enum.join(", ")})` : "";
      table.append(el("tr", {}, el("td", {}, el("code", {}, p.name)), el("td", {}, p.in), el("td", {}, (p.description ?? "") + values)));
    }
    section.append(table);
  }
  if (op.requestBody) {
    const when = op.requestBody.required ? "" : " (may be left out)";
    section.append(...body(spec, "Body" + when, op.requestBody.content));
  }
  const failures = el("table", {}, el("tr", {}, el("th", {}, "Status"), el("th", {}, "Failure")));
  let failed = false;
  for (const [status, response] of Object.entries(op.responses)) {
    if (Number(status) < 300) {
      section.append(...body(spec, `Answer ${status}`, response.content));
    } else {
      failed = true;
      failures.append(el("tr", {}, el("td", {}, status), el("td", {}, response.description)));
    }
  }
  if (failed) section.append(el("h4", {}, "Otherwise"), failures);
  return section;
}

function codes(spec) {
  const section = el("section", {}, el("h2", { id: "codes" }, "Codes"));
  const table = el("table", {}, el("tr", {}, ...["Code", "Status", "Meaning", "含义"].map((t) => el("th", {}, t))));
  for (const c of spec["x-codes"] ?? []) {
    table.append(
      el("tr", { id: String(c.code) },
        el("td", {}, el("code", {}, String(c.code))), el("td", {}, String(c.status)),
        el("td", {}, el("strong", {}, c.title), " ", c.detail), el("td", { lang: "zh" }, el("strong", {}, c.titleZh), " ", c.detailZh)),
    );
  }
  section.append(el("p", {}, "Every failure is a problem document whose code never changes its meaning."), table);
  section.append(el("pre", {}, schemaText(spec, { $ref: "#/components/schemas/Problem" })));
  return section;
}

function draw(spec) {
  document.getElementById("about").replaceChildren(
    `Version ${spec.info.version || "unknown"}. ${spec.info.description} `,
    el("a", { href: "/openapi.json" }, "OpenAPI document"), ".",
  );
  for (const { name } of spec.tags) {
    const list = el("ul");
    const sections = [];
    for (const [path, item] of Object.entries(spec.paths)) {
      for (const [method, op] of Object.entries(item)) {
        if (!op?.tags?.includes(name)) continue;
        list.append(el("li", {}, el("a", { href: `#${op.operationId}` }, `${method.toUpperCase()} ${path}`)));
        sections.push(operation(spec, path, method, op));
      }
    }
    index.append(el("h2", {}, name), list);
    main.append(el("h2", {}, name), ...sections);
  }
  index.append(el("p", {}, el("a", { href: "#codes" }, "Codes")));
  main.append(codes(spec));
  document.getElementById("find").addEventListener("input", (e) => {
    const wanted = e.target.value.trim().toLowerCase();
    for (const s of main.querySelectorAll("section.operation")) s.hidden = !s.textContent.toLowerCase().includes(wanted);
  });
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

try {
  const answer = await fetch("/openapi.json");
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  draw(await answer.json());
} catch (e) {
  document.getElementById("about").textContent = `The document cannot be read: ${e.message}`;
}
