"""Diff parsing: files and numbered lines."""

from gigafactory.web.presenters.diff import FILES_MAX, LINES_MAX, READ_MAX, DiffLine, parse_diff

TWO = """diff --git a/one.py b/one.py
index 1..2 100644
--- a/one.py
+++ b/one.py
@@ -1,3 +1,4 @@ def f():
 a
-b
+B
+++ not a head
 c
\\ No newline at end of file
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+diff --git a/x b/x
diff --git a/logo.png b/logo.png
Binary files a/logo.png and b/logo.png differ
"""


def test_lines_are_numbered_and_header_like_content_is_kept() -> None:
    first, second, third = parse_diff(TWO)
    assert (first.path, second.path, third.path) == ("one.py", "new.txt", "logo.png")
    assert first.lines == [
        DiffLine("hunk", None, None, "@@ -1,3 +1,4 @@ def f():"),
        DiffLine("same", 1, 1, "a"),
        DiffLine("del", 2, None, "b"),
        DiffLine("add", None, 2, "B"),
        DiffLine("add", None, 3, "++ not a head"),
        DiffLine("same", 3, 4, "c"),
    ]
    assert second.lines[1:] == [DiffLine("add", None, 1, "diff --git a/x b/x")]
    assert third.lines == []


def test_truncated_diff_is_parsed_to_its_end() -> None:
    [file] = parse_diff("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-a\n")
    assert file.lines[1] == DiffLine("del", 1, None, "a")
    assert parse_diff("") == []
    assert parse_diff("words without a head") == []


def test_number_of_lines_is_limited() -> None:
    many = LINES_MAX + 5
    text = f"diff --git a/x b/x\n@@ -0,0 +1,{many} @@\n" + "+y\n" * many
    more = "diff --git a/z b/z\n@@ -0,0 +1 @@\n+y\n"
    [file] = parse_diff(text + more)
    assert len(file.lines) == LINES_MAX


def test_a_hunk_with_numbers_that_no_file_has_is_no_hunk() -> None:
    (file,) = parse_diff(f"diff --git a/x b/x\n@@ -{'9' * 5000} +1 @@\n+a\n@@ -٣ +1 @@\n+b\n")
    assert file.lines == []


def test_a_path_with_quotes_is_the_last_one_of_its_line() -> None:
    (file,) = parse_diff('diff --git "a/x b/y" "b/x b/z"')
    assert file.path == "z"


def test_lines_that_are_not_shown_are_not_read_for_ever() -> None:
    text = "\n" * (READ_MAX + 1) + "diff --git a/x b/x\n"
    assert parse_diff(text) == []


def test_very_many_files_are_cut() -> None:
    assert len(parse_diff("diff --git a/x b/x\n" * 60_000)) == FILES_MAX
