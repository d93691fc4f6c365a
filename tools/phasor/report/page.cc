#include "report/page.h"

#include "phasor/version.h"
#include "report/markup.h"

namespace phasor::report {
namespace {

std::string row(const TextTable& table, const std::vector<std::string>& cells, std::string_view name) {
  std::string content;
  for (std::size_t i = 0; i < cells.size(); i++) {
    const bool right = i < table.headings.size() && table.headings[i].starts_with('>');
    const std::string_view text = name == "th" && right ? std::string_view(cells[i]).substr(1) : cells[i];
    content += right ? element(name, {{"class", "number"}}, escape(text)) : element(name, {}, escape(text));
  }
  return element("tr", {}, content);
}

std::string contents(const std::vector<Section>& sections) {
  std::string links;
  for (const Section& section : sections) links += element("a", {{"href", "#" + section.id}}, escape(section.title));
  return element("nav", {}, links);
}

}  // namespace

std::string html_table(const TextTable& table) {
  std::string body;
  for (const auto& cells : table.rows) body += row(table, cells, "td");
  return element(
      "div", {{"class", "table"}, {"tabindex", "0"}},
      element("table", {}, element("thead", {}, row(table, table.headings, "th")) + element("tbody", {}, body)));
}

std::string figure(const Figure& figure) {
  const std::string numbers =
      figure.numbers.rows.empty()
          ? ""
          : element("details", {}, element("summary", {}, "Numbers") + html_table(figure.numbers));
  return element("figure", {{"id", figure.id}},
                 element("h3", {}, escape(figure.title)) + element("p", {}, escape(figure.text)) +
                     element("div", {{"class", "picture"}}, figure.picture) + numbers) +
         "\n";
}

std::string gallery(const std::vector<Figure>& figures) {
  std::string content;
  for (const Figure& one : figures) content += figure(one);
  return content.empty() ? "" : element("div", {{"class", "gallery"}}, content);
}

std::string page(std::string_view title, std::string_view subtitle, const std::vector<Section>& sections) {
  std::string main = element("header", {}, element("h1", {}, escape(title)) + element("p", {}, escape(subtitle)));
  main += contents(sections);
  for (const Section& section : sections)
    main += element("section", {{"id", section.id}},
                    element("h2", {}, escape(section.title)) +
                        (section.text.empty() ? "" : element("p", {{"class", "lead"}}, escape(section.text))) +
                        section.content) +
            "\n";
  main += element("footer", {}, "Made by phasor " PHASOR_VERSION ".");
  const std::string head = element("meta", {{"charset", "utf-8"}}) +
                           element("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}}) +
                           element("meta", {{"name", "color-scheme"}, {"content", "light dark"}}) +
                           element("title", {}, escape(title)) + element("style", {}, kStyleSheet);
  return "<!DOCTYPE html>\n" +
         element("html", {{"lang", "en"}},
                 element("head", {}, head) + "\n" + element("body", {}, element("main", {}, main))) +
         "\n";
}

}  // namespace phasor::report
