// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/fault"
	"weir/kernel/testutil"
	"weir/record"
	"weir/record/bundle"
)

func TestReadErrorsNameTheWayOut(t *testing.T) {
	edit := func(name, text string) string {
		dir := written(t)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	put := func(create func(path string) error, name string) string {
		dir := written(t)
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Remove(path), create(path)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	missing := written(t)
	if err := os.Remove(filepath.Join(missing, bundle.SeriesFile)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ dir, want string }{
		"no folder":     {filepath.Join(t.TempDir(), "none"), "does not exist"},
		"a file":        {filepath.Join(written(t), bundle.CSVFile), "is a file"},
		"no manifest":   {t.TempDir(), "has no manifest.json"},
		"other format":  {edit(bundle.ManifestFile, `{"format":"npm"}`), "is not a bundle"},
		"newer format":  {edit(bundle.ManifestFile, `{"format":"weir-bundle/2"}`), "weir-bundle/2"},
		"torn manifest": {edit(bundle.ManifestFile, `{"format":`), "manifest.json is damaged"},
		"torn verdicts": {edit(bundle.VerdictsFile, `[{`), "verdicts.json is damaged"},
		"no Parquet":    {edit(bundle.SamplesFile, `PAR1`), "samples.parquet is damaged"},
		"empty Parquet": {edit(bundle.DistributionsFile, ``), "distributions.parquet is damaged"},
		"another CSV":   {edit(bundle.CSVFile, "x"), "samples.csv is damaged, cut off or was changed"},
		"other report":  {edit(bundle.ReportFile, "<p>better"), "report.html is damaged"},
		"other summary": {edit(bundle.SummaryFile, "{}"), "summary.json is damaged"},
		"other JUnit":   {edit(bundle.JUnitFile, ""), "junit.xml is damaged"},
		"a pipe":        {put(func(path string) error { return syscall.Mkfifo(path, 0o600) }, bundle.SamplesFile), "it is a pipe"},
		"endless":       {put(func(path string) error { return os.Symlink("/dev/zero", path) }, bundle.ManifestFile), "it is a device"},
		"endless sums":  {put(func(path string) error { return os.Symlink("/dev/zero", path) }, bundle.SumsFile), "it is a device"},
		"missing file":  {missing, "series.parquet is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bundle.Read(test.dir)
			if err == nil || !strings.Contains(err.Error(), test.want) || fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
				t.Errorf("%s: error %v (try: %s), want %q", name, err, fault.Advice(err), test.want)
			}
		})
	}
}

// A figure that cannot be drawn must not lose the measurement.
func TestAFigureThatCannotBeDrawn(t *testing.T) {
	b := &record.Bundle{Manifest: record.Manifest{Format: record.FormatBundle}, Figures: []record.Figure{
		{Name: "odd", Kind: record.Lines, Curves: []record.Curve{{Name: "c", X: []float64{1, 2}, Y: []float64{1}}}}, {Name: "even", Kind: record.Lines}}}
	dir := filepath.Join(t.TempDir(), "b")
	if err := bundle.Write(dir, b); err != nil {
		t.Fatal(err)
	}
	read, err := bundle.Read(dir)
	if diff := cmp.Diff(b, read); err != nil || diff != "" {
		t.Errorf("%v, difference (-want +got):\n%s", err, diff)
	}
	plots, _ := filepath.Glob(filepath.Join(dir, bundle.PlotsFolder, "*"))
	if len(plots) != 2 || filepath.Base(plots[0]) != "even.png" {
		t.Errorf("plots: %q", plots)
	}
	page, _ := os.ReadFile(filepath.Join(dir, bundle.ReportFile))
	if !strings.Contains(string(page), "cannot be drawn") {
		t.Error("the report does not say that a figure is missing")
	}
}

// A file truncated at any place is an error, never a panic and never fewer rows.
func TestTruncatedParquet(t *testing.T) {
	dir := written(t)
	for _, name := range []string{bundle.SamplesFile, bundle.DistributionsFile} {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for size := 0; size < len(whole); size += 1 + len(whole)/50 {
			if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := bundle.Read(dir); err == nil || !strings.Contains(err.Error(), name+" is damaged") {
				t.Fatalf("%s cut to %d of %d bytes: %v", name, size, len(whole), err)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A single wrong bit anywhere is detected.
func TestDamagedParquet(t *testing.T) {
	dir := written(t)
	path := filepath.Join(dir, bundle.DistributionsFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += 1 + len(whole)/200 {
		broken := append([]byte(nil), whole...)
		broken[at] ^= 0x10
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := bundle.Read(dir); err == nil || !strings.Contains(err.Error(), "distributions.parquet is damaged") {
			t.Fatalf("a wrong bit at %d: %v", at, err)
		}
	}
}

// A full disk is reported, and nothing is left.
func TestNoSpaceLeavesNothing(t *testing.T) {
	small := testutil.SmallDisk(t, 64<<10)
	dir := filepath.Join(small, "bundle")
	b := fixture()
	b.Points = series(200_000)
	err := bundle.Write(dir, b)
	if err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(fault.Advice(err), "free some space") {
		t.Fatalf("error %v, try: %s", err, fault.Advice(err))
	}
	if left, _ := os.ReadDir(small); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}
