// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/sheet.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <csignal>
#include <limits>
#include <map>
#include <random>

#include "catch.h"
#include "io/file/mapped_file.h"
#include "io/table/sheet_format.h"
#include "io/zip/zip_archive.h"
#include "io/zip/zip_format.h"
#include "msprobe/error.h"
#include "msprobe/table.h"
#include "temp_dir.h"

namespace msprobe::io {
namespace {

using test::TempDir;

constexpr std::array<std::string_view, 2> kColumns = {"name", "value"};
constexpr double kInf = std::numeric_limits<double>::infinity();

// The parts of an archive, read by its directory alone, so that ZipWriter and this agree only on the format.
std::map<std::string, std::string> unzip(const std::filesystem::path& path) {
  const std::string bytes = test::read_bytes(path);
  const std::span<const std::uint8_t> data(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const std::size_t end = bytes.size() - zip::kEndBytes;
  REQUIRE(zip::get<std::uint32_t>(data, end) == zip::kEnd);
  std::map<std::string, std::string> parts;
  std::size_t at = zip::get<std::uint32_t>(data, end + 16);
  for (int left = zip::get<std::uint16_t>(data, end + 10); left > 0; --left) {
    REQUIRE(zip::get<std::uint32_t>(data, at) == zip::kCentralHeader);
    CHECK(zip::get<std::uint16_t>(data, at + 10) == 8);  // deflate
    const auto crc = zip::get<std::uint32_t>(data, at + 16);
    const auto stored = zip::get<std::uint32_t>(data, at + 20);
    const auto size = zip::get<std::uint32_t>(data, at + 24);
    const auto name_size = zip::get<std::uint16_t>(data, at + 28);
    const auto header = zip::get<std::uint32_t>(data, at + 42);
    const std::string name = bytes.substr(at + zip::kCentralHeaderBytes, name_size);
    std::string text(size, '\0');
    z_stream stream{};
    REQUIRE(inflateInit2(&stream, -15) == Z_OK);
    stream.next_in = const_cast<Bytef*>(data.data()) + header + zip::kLocalHeaderBytes + name_size;
    stream.avail_in = stored;
    stream.next_out = reinterpret_cast<Bytef*>(text.data());
    stream.avail_out = size;
    CHECK(inflate(&stream, Z_FINISH) == Z_STREAM_END);
    CHECK(stream.avail_in == 0);
    inflateEnd(&stream);
    CHECK(::crc32(0, reinterpret_cast<const Bytef*>(text.data()), size) == crc);
    parts[name] = text;
    at += zip::kCentralHeaderBytes + name_size;
  }
  return parts;
}

std::string rows_of(const std::string& sheet) {
  const std::size_t begin = sheet.find("<sheetData>") + 11;
  return sheet.substr(begin, sheet.find("</sheetData>") - begin);
}

std::string xlsx_cell(const Cell& cell, RowFill fill = RowFill::kNone) {
  const TempDir dir;
  SheetWriter writer(dir / "t.xlsx");
  writer.begin_sheet("Sheet", std::array<std::string_view, 1>{"h"});
  writer.add_row(std::array<Cell, 1>{cell}, fill);
  writer.commit();
  const std::string rows = rows_of(unzip(dir / "t.xlsx").at("xl/worksheets/sheet1.xml"));
  const std::size_t begin = rows.find("<row r=\"2\">") + 11;
  return rows.substr(begin, rows.rfind("</row>") - begin);
}

std::string csv_of(std::initializer_list<Cell> cells) {
  const TempDir dir;
  SheetWriter writer(dir / "t.csv");
  writer.begin_sheet("Sheet", std::vector<std::string_view>(cells.size(), "h"));
  writer.add_row(std::vector<Cell>(cells));
  writer.commit();
  const std::string text = test::read_bytes(dir / "t.csv");
  const std::size_t line = text.find("\r\n") + 2;
  return text.substr(line, text.size() - line - 2);
}

std::string text_in(const std::string& xml) {
  const std::size_t begin = xml.find('>', xml.find("<t")) + 1;
  return xml.substr(begin, xml.find("</t>") - begin);
}

TEST_CASE("SheetWriter: a csv is what CsvWriter writes") {
  const TempDir dir;
  SheetWriter writer(dir / "t.csv");
  CsvWriter expected;
  writer.begin_sheet("Sheet", kColumns);
  expected.add({"name", "value"});
  for (const std::string text : {"plain", "a,b", "a\"b", "a\r\nb", "", "=1+1", "ü"}) {
    writer.add_row(std::array<Cell, 2>{text, 0.1});
    writer.add_row(std::array<Cell, 2>{std::int64_t{-7}, {}}, RowFill::kRed);
    expected.add({text, "0.1"});
    expected.add({"-7", ""});
  }
  writer.commit();
  CHECK(test::read_bytes(dir / "t.csv") == expected.text());
}

TEST_CASE("SheetWriter: a csv row with one empty cell is not an empty line") {
  CHECK(csv_of({Cell{}}) == "\"\"");
  CHECK(csv_of({""}) == "\"\"");
}

TEST_CASE("SheetWriter: numbers that recur in a csv row stand there each time") {
  CHECK(csv_of({0.1, 0.0, -0.0, 0.1, 1e300, -0.1, 0.0, 1e300, -0.0, 0.1}) ==
        "0.1,0.0,-0.0,0.1,1e+300,-0.1,0.0,1e+300,-0.0,0.1");
}

TEST_CASE("SheetWriter: text that a spreadsheet takes for a formula is guarded") {
  CHECK(csv_of({"=a1", "+x", "-1+1", "@a", "\tx", "a=1", -1.5}) == "'=a1,'+x,'-1+1,'@a,'\tx,a=1,-1.5");
  CHECK(csv_of({"=0", "=1+1", "=-1"}) == "=0,'=1+1,'=-1");
  CHECK(csv_of({"\rx"}) == "\"'\rx\"");
  CHECK(csv_of({"-1", "+1.5", "-0.5%", "-inf", "-nan", "-", "'", "'a"}) == "-1,+1.5,-0.5%,-inf,-nan,'-,','a");
  CHECK(xlsx_cell("=1+1") == R"(<c r="A2" t="inlineStr"><is><t>=1+1</t></is></c>)");
}

TEST_CASE("SheetWriter: bytes that are not UTF-8 are escaped in both formats") {
  CHECK(csv_of({"a\xFF\x80z"}) == "a\\xff\\x80z");
  CHECK(text_in(xlsx_cell("a\xC3")) == "a\\xc3");
}

TEST_CASE("SheetWriter: the cells of an xlsx") {
  CHECK(xlsx_cell(0.1) == R"(<c r="A2"><v>0.1</v></c>)");
  CHECK(xlsx_cell(std::numeric_limits<std::int64_t>::min()) ==
        R"(<c r="A2"><v>-9223372036854775808</v></c>)");
  CHECK(xlsx_cell({}).empty());
  CHECK(xlsx_cell("").empty());
  CHECK(xlsx_cell({}, RowFill::kYellow) == R"(<c r="A2" s="2"/>)");
  CHECK(xlsx_cell(1.5, RowFill::kRed) == R"(<c r="A2" s="1"><v>1.5</v></c>)");
  CHECK(xlsx_cell("inf\t") == "<c r=\"A2\" t=\"inlineStr\"><is><t xml:space=\"preserve\">inf\t</t></is></c>");
}

TEST_CASE("SheetWriter: a Boolean is one in an xlsx and a word in a csv") {
  CHECK(xlsx_cell(true) == R"(<c r="A2" t="b"><v>1</v></c>)");
  CHECK(xlsx_cell(false, RowFill::kRed) == R"(<c r="A2" s="1" t="b"><v>0</v></c>)");
  CHECK(csv_of({true, false}) == "True,False");
}

TEST_CASE("SheetWriter: text is escaped as XML and Excel want it") {
  CHECK(text_in(xlsx_cell("a<b>&\"c\"")) == "a&lt;b&gt;&amp;&quot;c&quot;");
  CHECK(text_in(xlsx_cell(std::string_view("a\0\x01\x1F\r\n\t.", 8))) == "a_x0000__x0001__x001F_&#13;\n\t.");
  CHECK(text_in(xlsx_cell("_x0041_ _x004_ a_x00e9_b")) == "_x005F_x0041_ _x004_ a_x005F_x00e9_b");
  CHECK(text_in(xlsx_cell("\xEF\xBF\xBE \xEF\xBF\xBF \xEF\xBF\xBD \xF0\x9F\x98\x80")) ==
        "_xFFFE_ _xFFFF_ \xEF\xBF\xBD \xF0\x9F\x98\x80");
}

TEST_CASE("SheetWriter: text above Excel's limit is cut between characters and marked") {
  const std::string fits(32767, 'a');
  CHECK(text_in(xlsx_cell(fits)) == fits);
  const std::string mark(SheetWriter::kCutMark);
  CHECK(text_in(xlsx_cell(fits + 'a')) == std::string(32767 - mark.size(), 'a') + mark);

  std::string umlauts;
  for (int i = 0; i < 32767; ++i) umlauts += "ü";
  CHECK(text_in(xlsx_cell(umlauts)) == umlauts);  // counted in characters, not in bytes
  std::string smileys;
  for (int i = 0; i < 16384; ++i) smileys += "\xF0\x9F\x98\x80";  // two units each: one too many
  const std::string cut = text_in(xlsx_cell(smileys));
  CHECK(cut.size() == (32767 - mark.size()) / 2 * 4 + mark.size());
  CHECK(cut.ends_with("\x80" + mark));
}

TEST_CASE("SheetWriter: every double reads back with the same bits") {
  std::mt19937_64 random(1);
  std::vector<double> values = {0.0,       -0.0, 5e-324, -5e-324, 1.7976931348623157e308,
                                0.1 + 0.2, 1e16, 1e-5,   1e22};
  while (values.size() < 20000) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value)) values.push_back(value);
  }
  const TempDir dir;
  for (const char* name : {"t.xlsx", "t.csv"}) {
    SheetWriter writer(dir / name);
    writer.begin_sheet("Sheet", kColumns);
    for (const double value : values) writer.add_row(std::array<Cell, 2>{"x", value});
    writer.commit();
  }
  const Table table = read_csv(dir / "t.csv");
  const std::string rows = rows_of(unzip(dir / "t.xlsx").at("xl/worksheets/sheet1.xml"));
  std::size_t at = 0;
  const auto parse = [](std::string_view text) {
    double value = 0;
    CHECK(std::from_chars(text.data(), text.data() + text.size(), value).ptr == text.data() + text.size());
    return value;
  };
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    at = rows.find("<v>", at) + 3;
    const std::string_view text(rows.data() + at, rows.find('<', at) - at);
    wrong += std::bit_cast<std::uint64_t>(parse(text)) != std::bit_cast<std::uint64_t>(values[i]) ? 1 : 0;
    wrong += text != table.rows[i][1] ? 1 : 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("SheetWriter: an xlsx does not depend on the number of threads") {
  const TempDir dir;
  for (const unsigned threads : {1U, 2U, 5U}) {
    SheetWriter writer(dir / (std::to_string(threads) + ".xlsx"), {.threads = threads});
    std::mt19937_64 random(2);
    writer.begin_sheet("Sheet", kColumns);
    for (int i = 0; i < 40000; ++i) {
      writer.add_row(std::array<Cell, 2>{"row " + std::to_string(i), static_cast<double>(random())});
    }
    writer.commit();
  }
  const std::string one = test::read_bytes(dir / "1.xlsx");
  CHECK(one == test::read_bytes(dir / "2.xlsx"));
  CHECK(one == test::read_bytes(dir / "5.xlsx"));
  CHECK(unzip(dir / "1.xlsx").at("xl/worksheets/sheet1.xml").size() > 3000000);  // several blocks
}

TEST_CASE("SheetWriter: several sheets keep their order, names and headers") {
  const TempDir dir;
  SheetWriter writer(dir / "t.xlsx");
  writer.begin_sheet("Verdict <1>", std::array<std::string_view, 1>{"a"});
  writer.begin_sheet("Sheet", kColumns);
  writer.add_row(std::array<Cell, 2>{"x", 1.0});
  writer.commit();
  const auto parts = unzip(dir / "t.xlsx");
  const std::string& workbook = parts.at("xl/workbook.xml");
  CHECK(workbook.find("name=\"Verdict &lt;1&gt;\" sheetId=\"1\"") <
        workbook.find("name=\"Sheet\" sheetId=\"2\""));
  CHECK(rows_of(parts.at("xl/worksheets/sheet1.xml")) ==
        R"(<row r="1"><c r="A1" t="inlineStr"><is><t>a</t></is></c></row>)");
  CHECK(rows_of(parts.at("xl/worksheets/sheet2.xml")).ends_with(R"(<c r="B2"><v>1.0</v></c></row>)"));
  for (const char* name :
       {"[Content_Types].xml", "_rels/.rels", "xl/styles.xml", "xl/_rels/workbook.xml.rels"}) {
    CHECK(parts.contains(name));
  }
}

TEST_CASE("SheetWriter: a sheet that is full goes on in parts, each with the header") {
  const auto sheets_of = [](const XlsxLimits& limits, int rows) {
    const TempDir dir;
    AtomicFile file(dir / "t.xlsx");
    const auto format = make_xlsx_format(file, {}, limits);
    format->begin_sheet("Five Thousandths Err Ratio abcd", kColumns);  // 31 characters
    for (int i = 0; i < rows; ++i) format->add_row(std::array<Cell, 2>{"r" + std::to_string(i), {}}, {});
    format->begin_sheet("last", kColumns);
    format->finish();
    file.commit();
    return unzip(dir / "t.xlsx");
  };
  CHECK(sheets_of({.rows = 3}, 2).at("xl/workbook.xml").find("abcd\"") != std::string::npos);

  const auto by_rows = sheets_of({.rows = 3}, 5);
  for (const char* name : {"\"Five Thousandths Err Rat_part_0\"", "\"Five Thousandths Err Rat_part_1\"",
                           "\"Five Thousandths Err Rat_part_2\"", "\"last\""}) {
    CHECK(by_rows.at("xl/workbook.xml").find(name) != std::string::npos);
  }
  for (const char* number : {"1", "2", "3"}) {
    const std::string rows = rows_of(by_rows.at("xl/worksheets/sheet" + std::string(number) + ".xml"));
    CHECK(rows.starts_with(R"(<row r="1"><c r="A1" t="inlineStr"><is><t>name</t>)"));
  }
  const std::string third = rows_of(by_rows.at("xl/worksheets/sheet3.xml"));
  CHECK(third.ends_with(R"(<row r="2"><c r="A2" t="inlineStr"><is><t>r4</t></is></c></row>)"));

  const auto by_bytes = sheets_of({.bytes = 450}, 4);  // room for the header and two rows
  CHECK(by_bytes.size() == 2 + 1 + 5);
  CHECK(rows_of(by_bytes.at("xl/worksheets/sheet2.xml"))
            .ends_with(R"(<row r="3"><c r="A3" t="inlineStr"><is><t>r3</t></is></c></row>)"));
  CHECK(sheets_of({.bytes = 1}, 2).size() == 2 + 1 + 5);  // a row is never left out
}

TEST_CASE("SheetWriter: what cannot be written is refused, and the table can go on") {
  const TempDir dir;
  SheetWriter writer(dir / "t.xlsx");
  const auto refusal = [](const auto& act) {
    try {
      act();
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto refusal_of_name = [&](std::string_view name) {
    return refusal([&] { writer.begin_sheet(name, kColumns); });
  };
  const std::string path = (dir / "t.xlsx").string() + ": ";
  CHECK(refusal([&] { writer.commit(); }) == path + "expected at least one sheet in a table");
  CHECK(refusal([&] { writer.add_row({}); }) == path + "a row was added before any sheet was begun");
  CHECK(refusal([&] { writer.begin_sheet("a", {}); }) ==
        path + "sheet \"a\": expected 1 to 16384 columns, found 0");
  writer.begin_sheet("Sheet", kColumns);
  CHECK(refusal_of_name("sHEET") == path + "sheet name \"sHEET\": found it twice");
  CHECK(refusal_of_name("") == path + "sheet name \"\": expected 1 to 31 characters, found 0");
  CHECK(refusal_of_name(std::string(32, 'a')).ends_with("found 32"));
  CHECK(refusal_of_name("a/b").ends_with("found the character /"));
  CHECK(refusal_of_name("'a").ends_with("found an apostrophe at an end"));
  CHECK(refusal_of_name("a\xFF").ends_with("found bytes that are no text"));
  CHECK(refusal([&] { writer.add_row(std::array<Cell, 1>{1.0}); }) ==
        path + "sheet \"sheet\": expected 2 cells as in the header, found 1");
  for (const double value : {kInf, -kInf, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(refusal([&] { writer.add_row(std::array<Cell, 2>{"x", value}); }) ==
          path + "column \"value\": expected a finite number, or text, found " + format_double(value));
  }
  writer.add_row(std::array<Cell, 2>{"x", 1.0});
  writer.commit();
  CHECK(refusal([&] { writer.commit(); }).ends_with("after it was committed, or after it failed"));
  CHECK(rows_of(unzip(dir / "t.xlsx").at("xl/worksheets/sheet1.xml")).find("<row r=\"3\">") ==
        std::string::npos);

  SheetWriter csv(dir / "t.csv");
  csv.begin_sheet("a", kColumns);
  CHECK(refusal([&] { csv.begin_sheet("b", kColumns); }).find("a csv holds one sheet") != std::string::npos);
  CHECK(refusal([&] { const SheetWriter other(dir / "t.xls"); }) ==
        (dir / "t.xls").string() + ": expected the name of a table to end in .csv or .xlsx");
}

TEST_CASE("SheetWriter: without commit nothing is left, with it a file of mode 0640") {
  const TempDir dir;
  const mode_t mask = ::umask(0);
  for (const char* name : {"t.csv", "t.xlsx"}) {
    {
      SheetWriter writer(dir / name);
      writer.begin_sheet("a", kColumns);
      CHECK(test::entries_below(dir.path()).size() == 1);  // the temporary file
    }
    CHECK(test::entries_below(dir.path()).empty());
  }
  SheetWriter writer(dir / "t.xlsx");
  writer.begin_sheet("a", kColumns);
  writer.commit();
  ::umask(mask);
  struct stat status{};
  REQUIRE(::stat((dir / "t.xlsx").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
  CHECK(test::entries_below(dir.path()) == std::vector<std::string>{"t.xlsx"});
}

TEST_CASE("SheetWriter: a file that cannot be made or grow is one IoError, and nothing is left") {
  const TempDir dir;
  CHECK_THROWS_AS(SheetWriter(dir / "absent" / "t.xlsx"), IoError);

  // A limit on the size of files fails at the same place as a full disk.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{.rlim_cur = 100000, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
  for (const char* name : {"t.csv", "t.xlsx"}) {
    const auto path = dir / name;
    SheetWriter writer(path);
    writer.begin_sheet("a", kColumns);
    std::mt19937_64 random(3);
    const auto fill = [&] {
      for (int i = 0; i < 100000; ++i)
        writer.add_row(std::array<Cell, 2>{"x", static_cast<double>(random())});
      writer.commit();
    };
    try {
      fill();
      FAIL("the limit has no effect");
    } catch (const IoError& error) {
      CHECK(error.error_number() == EFBIG);
      CHECK(error.path() == path.string());
    }
    CHECK(test::entries_below(dir.path()).empty());
    CHECK_THROWS_AS(writer.commit(), InvalidArgument);
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace msprobe::io
