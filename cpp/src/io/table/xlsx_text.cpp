// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/table/xlsx_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "io/utf8.h"
#include "msprobe/table.h"

namespace msprobe::io::xlsx {
namespace {

constexpr std::string_view kXmlBegin = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
constexpr std::string_view kMain = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
constexpr std::string_view kRelations = "http://schemas.openxmlformats.org/package/2006/relationships";
constexpr std::string_view kOffice = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
constexpr std::string_view kTypes = "application/vnd.openxmlformats-officedocument.spreadsheetml.";

// Style 0 is plain; 1 and 2 are the values of RowFill.
constexpr std::string_view kStyles =
    R"(<fonts count="1"><font><sz val="11"/><name val="Calibri"/><family val="2"/></font></fonts>)"
    R"(<fills count="4"><fill><patternFill patternType="none"/></fill>)"
    R"(<fill><patternFill patternType="gray125"/></fill>)"
    R"(<fill><patternFill patternType="solid"><fgColor rgb="FFFF0000"/><bgColor rgb="FFFF0000"/></patternFill></fill>)"
    R"(<fill><patternFill patternType="solid"><fgColor rgb="00FFFF00"/><bgColor rgb="00FFFF00"/></patternFill></fill>)"
    R"(</fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>)"
    R"(<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>)"
    R"(<cellXfs count="3"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>)"
    R"(<xf numFmtId="0" fontId="0" fillId="2" borderId="0" xfId="0" applyFill="1"/>)"
    R"(<xf numFmtId="0" fontId="0" fillId="3" borderId="0" xfId="0" applyFill="1"/></cellXfs>)"
    R"(<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>)";

// How each ASCII character is written: as it is, or by append_special().
constexpr auto kPlain = [] {
  std::array<bool, 128> plain{};
  for (std::size_t c = ' '; c < plain.size(); ++c) {
    plain[c] = std::string_view("&<>\"_\x7F").find(static_cast<char>(c)) == std::string_view::npos;
  }
  plain['\t'] = plain['\n'] = true;
  return plain;
}();

bool is_plain(char c) { return static_cast<std::uint8_t>(c) < 0x80 && kPlain[static_cast<std::uint8_t>(c)]; }

// `_x0041_` would be read as the character with this number.
bool looks_escaped(std::string_view text) {
  constexpr std::size_t kLength = 7;
  return text.size() >= kLength && text.starts_with("_x") && text[kLength - 1] == '_' &&
         std::all_of(text.begin() + 2, text.begin() + kLength - 1, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

void append_number(std::string& xml, std::uint32_t code) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  xml += "_x";
  for (int shift = 12; shift >= 0; shift -= 4) xml += kDigits[code >> shift & 15];
  xml += '_';
}

// Appends the first character of `text`, which is not plain, and returns its length.
std::size_t append_special(std::string& xml, std::string_view text) {
  const char c = text[0];
  switch (c) {
    case '&': xml += "&amp;"; return 1;
    case '<': xml += "&lt;"; return 1;
    case '>': xml += "&gt;"; return 1;
    case '"': xml += "&quot;"; return 1;
    case '\r': xml += "&#13;"; return 1;
    case '\x7F': xml += c; return 1;
    case '_': xml += looks_escaped(text) ? "_x005F_" : "_"; return 1;
    default: break;
  }
  if (static_cast<std::uint8_t>(c) < ' ') {
    append_number(xml, static_cast<std::uint8_t>(c));
    return 1;
  }
  const std::size_t length = utf8_sequence(text);
  if (length == 0) {
    xml += with_escaped_bytes(text.substr(0, 1));
    return 1;
  }
  const std::string_view character = text.substr(0, length);
  if (character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF") {  // U+FFFE, U+FFFF: not in XML
    append_number(xml, 0xFF00U | (static_cast<std::uint8_t>(character[2]) + 0x40U));
  } else {
    xml += character;
  }
  return length;
}

// The part of `text` that fits into a cell together with the mark; all of it when it fits alone.
std::string_view fitting(std::string_view text) {
  if (text.size() <= kLongestText) return text;
  std::size_t units = 0;
  std::size_t fits = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_sequence(text.substr(i));
    units += length == 4 ? 2 : length == 0 ? 4 : 1;  // a surrogate pair, \xNN
    i += std::max<std::size_t>(length, 1);
    if (units <= kLongestText - SheetWriter::kCutMark.size()) fits = i;
    if (units > kLongestText) return text.substr(0, fits);
  }
  return text;
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void append_text_cell(std::string& xml, std::string_view text) {
  const std::string_view shown = fitting(text);
  const bool keeps_space = is_space(shown.front()) || is_space(shown.back());
  xml += keeps_space ? R"( t="inlineStr"><is><t xml:space="preserve">)" : R"( t="inlineStr"><is><t>)";
  append_text(xml, shown);
  if (shown.size() < text.size()) xml += SheetWriter::kCutMark;
  xml += "</t></is></c>";
}

std::string relation(std::size_t id, std::string_view type, std::string_view target) {
  std::string text = "<Relationship Id=\"rId" + std::to_string(id) + "\" Type=\"";
  ((text += kOffice) += '/') += type;
  ((text += "\" Target=\"") += target) += "\"/>";
  return text;
}

std::string content_type(std::string_view part, std::string_view type) {
  std::string text = "<Override PartName=\"/";
  (text += part) += "\" ContentType=\"";
  ((text += kTypes) += type) += "+xml\"/>";
  return text;
}

// An element with a namespace around `content`, as a whole file.
std::string file_of(std::string_view element, std::string_view name_space, const std::string& content) {
  std::string text(kXmlBegin);
  ((text += '<') += element) += " xmlns=\"";
  ((text += name_space) += "\">") += content;
  ((text += "</") += element) += '>';
  return text;
}

}  // namespace

void append_text(std::string& xml, std::string_view text) {
  while (!text.empty()) {
    const auto run =
        static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_plain) - text.begin());
    xml += text.substr(0, run);
    text.remove_prefix(run);
    if (!text.empty()) text.remove_prefix(append_special(xml, text));
  }
}

void append_cell(std::string& xml, std::string_view reference, const Cell& cell, RowFill fill) {
  const auto* text = std::get_if<std::string_view>(&cell);
  const bool is_empty = std::holds_alternative<std::monostate>(cell) || (text != nullptr && text->empty());
  if (is_empty && fill == RowFill::kNone) return;
  ((xml += "<c r=\"") += reference) += '"';
  if (fill != RowFill::kNone) {
    xml += " s=\"";
    xml += static_cast<char>('0' + static_cast<int>(fill));
    xml += '"';
  }
  if (is_empty) {
    xml += "/>";
  } else if (text != nullptr) {
    append_text_cell(xml, *text);
  } else if (const auto* boolean = std::get_if<bool>(&cell)) {
    xml += *boolean ? R"( t="b"><v>1</v></c>)" : R"( t="b"><v>0</v></c>)";
  } else {
    xml += "><v>";
    if (const auto* number = std::get_if<double>(&cell)) {
      append_double(xml, *number);
    } else {
      std::array<char, 24> digits{};
      xml.append(digits.data(),
                 std::to_chars(digits.begin(), digits.end(), std::get<std::int64_t>(cell)).ptr);
    }
    xml += "</v></c>";
  }
}

std::string column_letters(std::size_t index) {
  std::string letters;
  for (std::size_t rest = index + 1; rest > 0; rest = (rest - 1) / 26) {
    letters.insert(letters.begin(), static_cast<char>('A' + (rest - 1) % 26));
  }
  return letters;
}

std::string sheet_path(std::size_t index) {
  return "xl/worksheets/sheet" + std::to_string(index + 1) + ".xml";
}

std::string cover_sheet(std::span<const std::string> lines) {
  std::string xml(kSheetBegin.substr(0, kSheetBegin.find("<sheetData>")));
  xml += R"(<sheetViews><sheetView tabSelected="1" workbookViewId="0"/></sheetViews>)"
         R"(<cols><col min="1" max="1" width="120" customWidth="1"/></cols><sheetData>)";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    ((xml += "<row r=\"") += number) += "\">";
    append_cell(xml, "A" + number, Cell(std::string_view(lines[i])), RowFill::kNone);
    xml += "</row>";
  }
  return xml += kSheetEnd;
}

std::vector<Part> package_parts(std::span<const std::string> sheet_names, std::size_t shown) {
  std::string sheets;
  if (shown > 0) {
    sheets = "<bookViews><workbookView activeTab=\"" + std::to_string(shown) + "\"/></bookViews>";
  }
  sheets += "<sheets>";
  std::string relations;
  std::string types =
      R"(<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>)"
      R"(<Default Extension="xml" ContentType="application/xml"/>)";
  for (std::size_t i = 0; i < sheet_names.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    sheets += "<sheet name=\"";
    append_text(sheets, sheet_names[i]);
    ((((sheets += "\" sheetId=\"") += number) += "\" r:id=\"rId") += number) += "\"/>";
    relations += relation(i + 1, "worksheet", sheet_path(i).substr(3));
    types += content_type(sheet_path(i), "worksheet");
  }
  sheets += "</sheets>";
  relations += relation(sheet_names.size() + 1, "styles", "styles.xml");
  types += content_type("xl/workbook.xml", "sheet.main") + content_type("xl/styles.xml", "styles");

  const std::string workbook_space = std::string(kMain) + "\" xmlns:r=\"" + std::string(kOffice);
  return {
      {"xl/styles.xml", file_of("styleSheet", kMain, std::string(kStyles))},
      {"xl/workbook.xml", file_of("workbook", workbook_space, sheets)},
      {"xl/_rels/workbook.xml.rels", file_of("Relationships", kRelations, relations)},
      {"_rels/.rels", file_of("Relationships", kRelations, relation(1, "officeDocument", "xl/workbook.xml"))},
      {"[Content_Types].xml",
       file_of("Types", "http://schemas.openxmlformats.org/package/2006/content-types", types)}};
}

}  // namespace msprobe::io::xlsx
