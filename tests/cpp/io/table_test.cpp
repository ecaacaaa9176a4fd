// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/table.h"

#include <bit>
#include <limits>
#include <sstream>

#include "catch.h"
#include "msprobe/error.h"
#include "temp_dir.h"

namespace msprobe::io {
namespace {

using test::TempDir;
using test::write_bytes;

Table csv_table(std::string_view text) {
  const TempDir dir;
  write_bytes(dir / "t.csv", text);
  return read_csv(dir / "t.csv");
}

std::string csv_refusal(std::string_view text) {
  const TempDir dir;
  write_bytes(dir / "t.csv", text);
  try {
    read_csv(dir / "t.csv");
  } catch (const FormatError& error) {
    CHECK(error.path() == (dir / "t.csv").string());
    return std::string(error.what()).substr(error.path().size() + 2);
  }
  return "accepted";
}

TEST_CASE("format_double: gives what Python's repr() gives") {
  std::istringstream lines(test::read_bytes(MSPROBE_TEST_DATA "/grad_probe/python_reprs.txt"));
  std::string hex;
  std::string expected;
  int checked = 0;
  for (; lines >> hex >> expected; ++checked) {
    const double value = std::bit_cast<double>(static_cast<std::uint64_t>(std::stoull(hex, nullptr, 16)));
    CHECK(format_double(value) == expected);
  }
  CHECK(checked > 300);
}

TEST_CASE("format_double: NaN has no sign, Inf has") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  CHECK(format_double(kNaN) == "nan");
  CHECK(format_double(-kNaN) == "nan");
  CHECK(format_double(kInf) == "inf");
  CHECK(format_double(-kInf) == "-inf");
}

TEST_CASE("CsvWriter: quotes only what needs it, ends lines with CRLF, starts with a byte order mark") {
  CsvWriter csv;
  csv.add({"a", "", "b c", "d,e", "f\"g", "h\ni", "j\rk", "l;'m"});
  csv.add({""});
  csv.add({"", ""});
  CHECK(csv.text() ==
        "\xEF\xBB\xBF"
        "a,,b c,\"d,e\",\"f\"\"g\",\"h\ni\",\"j\rk\",l;'m\r\n\"\"\r\n,\r\n");
}

TEST_CASE("CsvWriter: a sign that needs quotes is seen wherever it stands, in cells of any length") {
  for (std::size_t length = 1; length < 40; ++length) {
    CsvWriter plain;
    plain.add({std::string(length, 'a')});
    REQUIRE(plain.text().find('"') == std::string::npos);
    for (std::size_t at = 0; at < length; ++at) {
      for (const std::string sign : {",", "\"", "\r", "\n"}) {
        const std::string before(at, 'a'), behind(length - at - 1, 'b');
        const std::string shown = sign == "\"" ? "\"\"" : sign;
        const std::string guard = at == 0 && sign == "\r" ? "'" : "";
        CsvWriter writer;
        writer.add({before + sign + behind});
        REQUIRE(writer.text().substr(3) == '"' + guard + before + shown + behind + "\"\r\n");
      }
    }
  }
}

TEST_CASE("read_csv: reads back what CsvWriter wrote") {
  const TempDir dir;
  const Row header{"name", "quote \" and, comma", "line\r\nbreak"};
  const Row row{"0.10", "", "\xC3\xA9 \xF0\x9F\x98\x80"};
  CsvWriter csv;
  csv.add(header);
  csv.add(row);
  write_bytes(dir / "t.csv", csv.text());
  const Table table = read_csv(dir / "t.csv");
  CHECK(table.header == header);
  CHECK(table.rows == std::vector<Row>{row});
  CHECK(table.column("name") == 0);
  CHECK(table.column("line\r\nbreak") == 2);
  CHECK(table.column("Name") == -1);
}

TEST_CASE("CsvWriter: what a spreadsheet takes for a formula is guarded, and read back as it was") {
  const Row header{"=a", "b", "c", "d", "e"};
  const Row row{"=1+1", "'=1", "'x", "-inf\t", "@"};
  CsvWriter csv;
  csv.add(header);
  csv.add(row);
  CHECK(csv.text() == "\xEF\xBB\xBF'=a,b,c,d,e\r\n'=1+1,''=1,'x,-inf\t,'@\r\n");
  const TempDir dir;
  write_bytes(dir / "t.csv", csv.text());
  CHECK(read_csv(dir / "t.csv").header == header);
  CHECK(read_csv(dir / "t.csv").rows == std::vector<Row>{row});
}

TEST_CASE("read_csv: takes LF, CR, a missing last line end, no byte order mark, and empty lines") {
  const std::vector<Row> rows{{"1", "2"}, {"3", "4"}};
  CHECK(csv_table("a,b\n1,2\n3,4\n").rows == rows);
  CHECK(csv_table("a,b\r1,2\r3,4").rows == rows);
  CHECK(csv_table("\xEF\xBB\xBF"
                  "a,b\r\n\r\n1,2\r\n3,4\r\n\r\n")
            .rows == rows);
  CHECK(csv_table("a,b").rows.empty());
  CHECK(csv_table("a\n\"\"\n").rows == std::vector<Row>{{""}});
}

TEST_CASE("read_csv: a quote counts only at the start of a cell, as in Python") {
  CHECK(csv_table("a,b\nx\"y\",\"p\"q\n").rows == std::vector<Row>{{"x\"y\"", "pq"}});
}

TEST_CASE("read_csv: damaged files are refused with the line") {
  CHECK(csv_refusal("") == "line 1: the file is empty, expected a header line");
  CHECK(csv_refusal("\xEF\xBB\xBF") == "line 1: the file is empty, expected a header line");
  CHECK(csv_refusal("\r\n\r\n") == "line 1: the file is empty, expected a header line");
  CHECK(csv_refusal("a,b\n1,2\n3\n") == "line 3: expected 2 cells as in the header, found 1");
  CHECK(csv_refusal("a,b\n\"1\n2\",3,4\n") == "line 2: expected 2 cells as in the header, found 3");
  CHECK(csv_refusal("a,b\n1,\"2\n3,4\n") == "line 2: a quote is opened and never closed");
  CHECK(csv_refusal(std::string_view("a,b\n1,\0\n", 8)) == "line 2: found a NUL byte, expected text");
  CHECK(csv_refusal(std::string_view("a,b\n1,\"\n\0\"\n", 11)) == "line 3: found a NUL byte, expected text");
}

TEST_CASE("read_csv: bytes that are not UTF-8 are refused") {
  for (const char* bytes : {"\xFF", "\xC3", "\xC3(", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80",
                            "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\x80"}) {
    CHECK(csv_refusal(std::string("a\nx") + bytes) == "line 2: found bytes that are not UTF-8");
  }
}

TEST_CASE("read_csv: a file above 1 GiB is refused before it is read") {
  const TempDir dir;
  write_bytes(dir / "t.csv", "a\n");
  std::filesystem::resize_file(dir / "t.csv", (std::uintmax_t{1} << 30) + 1);  // a hole, takes no room
  CHECK_THROWS_AS(read_csv(dir / "t.csv"), FormatError);
}

TEST_CASE("read_csv: a missing file or a directory is an IoError") {
  const TempDir dir;
  CHECK_THROWS_AS(read_csv(dir / "missing.csv"), IoError);
  CHECK_THROWS_AS(read_csv(dir.path()), IoError);
}

}  // namespace
}  // namespace msprobe::io
