// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"weir/measure/spool"
)

// result is a test's record with the members of a datatype that the archive reads.
type result struct {
	UUID     string
	ClientIP string
	EndTime  time.Time
	Filler   string
}

var noon = time.Date(2026, 11, 26, 12, 0, 0, 123456789, time.UTC)

// store writes n records of a datatype into a spool.
func store(t testing.TB, dir, datatype, label string, n int) {
	t.Helper()
	s, err := spool.Open(dir, spool.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		id := fmt.Sprintf("%s-%04d", label, i)
		if err := s.Store(t.Context(), datatype, id, noon, result{id, "192.0.2.1", noon.Add(time.Duration(i) * time.Second), strings.Repeat("x", 500)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// newArchive returns an archive with small bundles in a folder.
func newArchive(t testing.TB, dir string, d Destination) *Archive {
	t.Helper()
	a, err := New(Options{Spool: dir, Destination: d, Organization: "example", Node: "mlab1-lga01", Version: "1.2.3", Commit: "abc", MaxBytes: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// objects reads a folder of objects.
func objects(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		key, err := filepath.Rel(dir, path)
		if err == nil {
			found[key], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return found
}

// lines decompresses an object.
func lines(t testing.TB, content []byte) []string {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.HasSuffix(text, []byte("\n")) {
		t.Error("an object ends with a line end")
	}
	return strings.Split(string(text), "\n")
}

// row is a row of a data object.
type row struct {
	Date     string
	Archiver archiver
	Raw      result
}

// archived checks all objects of an archive, and counts the rows by UUID.
func archived(t testing.TB, found map[string][]byte, url func(key string) string) map[string]int {
	t.Helper()
	count := map[string]int{}
	for key, content := range found {
		if !strings.HasSuffix(key, "-data.jsonl.gz") {
			continue
		}
		parts := strings.Split(key, "/")
		index := strings.Replace(strings.Replace(key, "/"+parts[4]+"/", "/index1/", 1), "-data.jsonl.gz", "-index1.jsonl.gz", 1)
		if found[index] == nil {
			t.Errorf("%s has no index %s", key, index)
			continue
		}
		names := lines(t, found[index])
		for i, line := range lines(t, content) {
			var r row
			decoder := json.NewDecoder(strings.NewReader(line))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&r); err != nil {
				t.Fatalf("%s: %v in %s", key, err, line)
			}
			var entry struct {
				Filename  string
				Size      int
				TimeAdded string
			}
			if err := json.Unmarshal([]byte(names[i]), &entry); err != nil || entry.Filename != r.Archiver.Filename || entry.Size != len(line) {
				t.Errorf("%s: index row %s (%v) of %s", key, names[i], err, line)
			}
			if r.Date != strings.Join(parts[5:8], "-") || r.Archiver.ArchiveURL != url(key) || !strings.HasPrefix(line, `{"Date":"`) {
				t.Errorf("%s: row %s", key, line)
			}
			count[r.Raw.UUID]++
		}
	}
	return count
}

func TestBundlesHaveTheLayoutOfAutoload(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	store(t, dir, "quality1", "a", 20)
	store(t, dir, "ndt7", "b", 3)
	a := newArchive(t, dir, folderDestination(to))
	a.o.Now = func() time.Time { return time.Date(2026, 11, 27, 1, 2, 3, 456789999, time.UTC) }
	r, err := a.Pass(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	found := objects(t, to)
	count := archived(t, found, folderDestination(to).URL)
	if r.Records != 23 || len(count) != 23 || r.Waiting != 0 || len(r.Aside) != 0 || r.Bundles != 4 {
		t.Errorf("%+v, %d records", r, len(count))
	}
	for _, key := range []string{
		"autoload/v2/example/ndt/ndt7/2026/11/26/20261127T010203.456789Z-ndt7-mlab1-lga01-ndt-data.jsonl.gz",
		"autoload/v2/example/ndt/index1/2026/11/26/20261127T010203.456789Z-ndt7-mlab1-lga01-ndt-index1.jsonl.gz",
		"parquet/v1/organization=example/experiment=ndt/datatype=ndt7/date=2026-11-26/20261127T010203.456789Z-ndt7-mlab1-lga01-ndt.parquet",
		"autoload/v2/example/weir/quality1/2026/11/26/20261127T010203.456790Z-quality1-mlab1-lga01-weir-data.jsonl.gz",
	} {
		if found[key] == nil {
			t.Errorf("%s is missing", key)
		}
	}
	if left := objects(t, dir); len(left) != 1 { // the lock has no dot
		t.Errorf("left in the spool: %v", left)
	}
}

func TestABundleWaitsForItsAgeOrSize(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	store(t, dir, "quality1", "a", 10)
	a := newArchive(t, dir, folderDestination(to))
	now := time.Now()
	a.o.Now = func() time.Time { return now }
	for _, step := range []struct {
		what             string
		advance          time.Duration
		records, waiting int
	}{
		{"a full bundle", 0, 7, 3},
		{"young records", 59 * time.Minute, 0, 3},
		{"an hour later", time.Minute, 3, 0},
	} {
		now = now.Add(step.advance)
		r, err := a.Pass(t.Context(), false)
		if err != nil || r.Records != step.records || r.Waiting != step.waiting {
			t.Errorf("%s: %+v (%v)", step.what, r, err)
		}
	}
	store(t, dir, "quality1", "b", 1)
	now = time.Now().Add(-2 * time.Hour) // the clock is set back
	if r, err := a.Pass(t.Context(), false); err != nil || r.Records != 1 {
		t.Errorf("records from the future: %+v (%v)", r, err)
	}
	if count := archived(t, objects(t, to), folderDestination(to).URL); len(count) != 11 {
		t.Errorf("%d records, want 11", len(count))
	}
}

func TestInvalidFilesAreSetAside(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	store(t, dir, "quality1", "good", 2)
	day := filepath.Join(dir, "weir/quality1/2026/11/26")
	invalid := map[string]string{
		"cut.json": `{"UUID":"cut"`, "empty.json": "", "list.json": "[1]", "two.json": "{}\n{}", "latin.json": "{\"a\":\"\xe9\"}",
		"packed.json.gz": "\x1f\x8b", "a..b.json": "{}", "space here.json": "{}", "large.json": `{"a":"` + strings.Repeat("x", 9000) + `"}`,
	}
	for name, text := range invalid {
		if err := os.WriteFile(filepath.Join(day, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(day, "lines.json"), []byte("{\n \"UUID\": \"lines\"\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(day, "link.json")); err != nil {
		t.Fatal(err)
	}
	invalid["link.json"] = ""
	r, err := newArchive(t, dir, folderDestination(to)).Pass(t.Context(), true)
	if err != nil || len(r.Aside) != len(invalid) || r.Records != 3 {
		t.Errorf("%+v (%v)", r, err)
	}
	for _, aside := range r.Aside {
		name := filepath.Base(aside.File)
		reason, err := os.ReadFile(aside.File + ".reason")
		if err != nil || strings.TrimSpace(string(reason)) != aside.Reason {
			t.Errorf("%s: reason %q (%v), want %q", name, reason, err, aside.Reason)
		}
		if text, err := os.ReadFile(aside.File); name != "link.json" && (err != nil || string(text) != invalid[name]) {
			t.Errorf("%s: %q (%v)", name, text, err)
		}
	}
	count := archived(t, objects(t, to), folderDestination(to).URL)
	if len(count) != 3 || count["lines"] != 1 {
		t.Errorf("archived: %v", count)
	}
}

// A foreign object with the name of a bundle stays, and the bundle gets another name.
func TestAForeignObjectIsNotOverwritten(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	store(t, dir, "quality1", "a", 3)
	a := newArchive(t, dir, folderDestination(to))
	a.o.Now = func() time.Time { return noon }
	foreign := filepath.Join(to, "autoload/v2/example/weir/quality1/2026/11/26/20261126T120000.123456Z-quality1-mlab1-lga01-weir-data.jsonl.gz")
	if err := os.MkdirAll(filepath.Dir(foreign), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(foreign, []byte("foreign"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := a.Pass(t.Context(), true); err != nil || r.Records != 3 {
		t.Fatalf("%+v (%v)", r, err)
	}
	if text, err := os.ReadFile(foreign); err != nil || string(text) != "foreign" {
		t.Errorf("the foreign object has %q (%v)", text, err)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	if count := archived(t, objects(t, to), folderDestination(to).URL); len(count) != 3 {
		t.Errorf("archived: %v", count)
	}
}

// failing is a destination with errors of a test's choice.
type failing struct {
	folderDestination
	before, after func(key string) error // of Create
}

func (f failing) Create(ctx context.Context, key string, content []byte) error {
	if f.before != nil {
		if err := f.before(key); err != nil {
			return err
		}
	}
	err := f.folderDestination.Create(ctx, key, content)
	if err == nil && f.after != nil {
		err = f.after(key)
	}
	return err
}

// An archive that fails before or after each single object gets every record once in the end.
func TestAFailingArchiveGetsEachRecordOnce(t *testing.T) {
	broken := &destinationError{errors.New("the archive is dead")}
	for object := range 6 {
		for _, after := range []bool{false, true} {
			dir, to := t.TempDir(), t.TempDir()
			store(t, dir, "quality1", "a", 10)
			n := 0
			hook := func(string) error {
				if n++; n == object+1 {
					return broken
				}
				return nil
			}
			d := failing{folderDestination: folderDestination(to), before: hook}
			if after {
				d.before, d.after = nil, hook
			}
			if _, err := newArchive(t, dir, d).Pass(t.Context(), true); !errors.Is(err, broken) {
				t.Errorf("object %d: error %v", object, err)
			}
			if _, err := newArchive(t, dir, d).Pass(t.Context(), true); err != nil {
				t.Error(err)
			}
			count := archived(t, objects(t, to), d.URL)
			for id, n := range count {
				if n != 1 {
					t.Errorf("object %d: %s is there %d times", object, id, n)
				}
			}
			if len(count) != 10 {
				t.Errorf("object %d, after it %t: %d records, want 10", object, after, len(count))
			}
		}
	}
}

// The plan of a bundle that waits for its archive is not overwritten after the clock is set back.
func TestPlansOfTheSameTimeAreTwo(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	broken := &destinationError{errors.New("the archive is dead")}
	d := failing{folderDestination: folderDestination(to), before: func(string) error { return broken }}
	store(t, dir, "quality1", "a", 2)
	first := newArchive(t, dir, d)
	first.o.Now = func() time.Time { return noon }
	if _, err := first.Pass(t.Context(), true); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	second := newArchive(t, dir, d)
	second.o.Now = first.o.Now
	f := folder{"weir", "quality1", "2026/11/26"}
	p, err := second.newPlan(f, []string{"b.json"}, [][]byte{[]byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	plans, err := second.plans()
	if err != nil || len(plans) != 2 || !p.Time.After(plans[0].Time) {
		t.Errorf("%d plans (%v), the second at %s", len(plans), err, p.Time)
	}
}

func TestAChangedRecordOfAPlanIsReported(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	store(t, dir, "quality1", "a", 2)
	broken := &destinationError{errors.New("the archive is dead")}
	d := failing{folderDestination: folderDestination(to), before: func(string) error { return broken }}
	if _, err := newArchive(t, dir, d).Pass(t.Context(), true); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	day := filepath.Join(dir, "weir/quality1/2026/11/26")
	names, err := os.ReadDir(day)
	if err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
	if err := os.WriteFile(filepath.Join(day, names[0].Name()), []byte(`{"UUID":"other"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	store(t, dir, "quality1", "b", 1)
	r, err := newArchive(t, dir, folderDestination(to)).Pass(t.Context(), true)
	if err == nil || !strings.Contains(err.Error(), "has changed") || r.Records != 1 {
		t.Errorf("%+v, error %v", r, err)
	}
	if count := archived(t, objects(t, to), folderDestination(to).URL); len(count) != 1 {
		t.Errorf("archived: %v", count)
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add([]byte(`{"format":"weir-archive-plan/1","folder":{"experiment":"ndt","datatype":"ndt7","date":"2026/11/26"},"time":"2026-11-26T12:00:00Z","node":"a","organization":"b","files":["a.json"]}`))
	f.Add([]byte(`{"format":"weir-archive-plan/1","folder":{"experiment":"..","date":"////"},"files":["../a.json"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parsePlan(text)
		if err != nil {
			return
		}
		for _, path := range append([]string{p.dataKey(), p.indexKey(), p.parquetKey(), p.Folder.path()}, p.Files...) {
			if !filepath.IsLocal(path) || strings.Contains(path, "..") {
				t.Errorf("%q", path)
			}
		}
	})
}

func FuzzOneLine(f *testing.F) {
	f.Add([]byte("{\n\"a\": [1,\r\n2]}\n"))
	f.Add([]byte(`{"a":"\u2028"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		line, reason := oneLine(text)
		if reason != "" {
			return
		}
		var before, after any
		if json.Unmarshal(text, &before) != nil || json.Unmarshal(line, &after) != nil || bytes.ContainsAny(line, "\r\n") {
			t.Errorf("%q became %q", text, line)
		}
		if scanner := bufio.NewScanner(bytes.NewReader(line)); scanner.Scan() && len(scanner.Bytes()) != len(line) {
			t.Errorf("%q is more than a line", line)
		}
	})
}
