package bundle_test

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"weir/internal/fault"
	"weir/record"
	"weir/record/bundle"
)

// written returns a new folder with the fixture, which is drawn only once.
func written(t *testing.T) string {
	t.Helper()
	drawn.Do(func() {
		var parent string
		if parent, drawnErr = os.MkdirTemp("", "weirtest-bundle-"); drawnErr == nil {
			drawnDir = filepath.Join(parent, "bundle")
			drawnErr = bundle.Write(drawnDir, fixture())
		}
	})
	if drawnErr != nil {
		t.Fatal(drawnErr)
	}
	dir := filepath.Join(t.TempDir(), "out", "bundle")
	if err := os.CopyFS(dir, os.DirFS(drawnDir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

var (
	drawn    sync.Once
	drawnDir string
	drawnErr error
)

func TestMain(m *testing.M) {
	status := m.Run()
	if drawnDir != "" {
		_ = os.RemoveAll(filepath.Dir(drawnDir))
	}
	os.Exit(status)
}

func TestRoundTrip(t *testing.T) {
	dir := written(t)
	read, err := bundle.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fixture(), read); diff != "" {
		t.Fatalf("what was read differs (-want +got):\n%s", diff)
	}
	if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 1 {
		t.Errorf("beside the bundle there is %v", left)
	}
}

func TestRoundTripOfAnEmptyBundle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "b")
	if err := bundle.Write(dir, &record.Bundle{}); err != nil {
		t.Fatal(err)
	}
	read, err := bundle.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := &record.Bundle{Manifest: record.Manifest{Format: record.FormatBundle}}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Fatalf("what was read differs (-want +got):\n%s", diff)
	}
}

func TestRoundTripOfALongSeries(t *testing.T) {
	want := &record.Bundle{Manifest: record.Manifest{Format: record.FormatBundle, Name: "long"}, Points: series(50_000)}
	dir := filepath.Join(t.TempDir(), "b")
	if err := bundle.Write(dir, want); err != nil {
		t.Fatal(err)
	}
	read, err := bundle.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Fatalf("what was read differs (-want +got):\n%.2000s", diff)
	}
}

func TestReplacesABundleAndNothingElse(t *testing.T) {
	dir := written(t)
	changed := fixture()
	changed.Manifest.Name = "second"
	if err := bundle.Write(dir, changed); err != nil {
		t.Fatal(err)
	}
	if m, err := bundle.ReadManifest(dir); err != nil || m.Name != "second" {
		t.Fatalf("manifest %+v, %v", m, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 1 {
		t.Errorf("beside the bundle there is %v", left)
	}
	other := t.TempDir()
	precious := filepath.Join(other, "thesis.tex")
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{other, precious} {
		err := bundle.Write(target, fixture())
		if fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
			t.Errorf("writing over %s: %v", target, err)
		}
	}
	if left, _ := os.ReadDir(other); len(left) != 1 {
		t.Errorf("the folder now holds %v", left)
	}
	if err := bundle.Write(t.TempDir(), fixture()); err != nil {
		t.Errorf("an empty folder is refused: %v", err)
	}
}

func TestReadErrorsSayWhatToDo(t *testing.T) {
	edit := func(name, text string) string {
		dir := written(t)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
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
		"missing file":  {missing, "series.parquet is missing"},
	} {
		_, err := bundle.Read(test.dir)
		if err == nil || !strings.Contains(err.Error(), test.want) || fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
			t.Errorf("%s: error %v (try: %s), want %q", name, err, fault.Advice(err), test.want)
		}
	}
}

// A file that is cut off anywhere must be an error, never a panic and never fewer rows.
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
			if _, err := bundle.Read(dir); err == nil || !strings.Contains(err.Error(), name+" is damaged or cut off") {
				t.Fatalf("%s cut to %d of %d bytes: %v", name, size, len(whole), err)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Damage inside the file must never panic; it may go unseen, since Parquet has no checksum by default.
func TestDamagedParquetDoesNotPanic(t *testing.T) {
	dir := written(t)
	path := filepath.Join(dir, bundle.DistributionsFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for at := 0; at < len(whole); at += 1 + len(whole)/200 {
		broken := append([]byte(nil), whole...)
		broken[at] ^= 0xff
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := bundle.Read(dir); err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no damage was noticed at all")
	}
}

func TestParquetReadsWithoutOurTypes(t *testing.T) {
	file, err := os.Open(filepath.Join(written(t), bundle.SamplesFile))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader := parquet.NewGenericReader[any](file)
	defer reader.Close()
	rows := make([]any, 1)
	if n, err := reader.Read(rows); n != 1 || (err != nil && !errors.Is(err, io.EOF)) {
		t.Fatalf("read %d rows: %v", n, err)
	}
	row, ok := rows[0].(map[string]any)
	if !ok {
		t.Fatalf("a row is a %T", rows[0])
	}
	if row["metric"] != "goodput" || row["unit"] != "bit/s" || row["value"] != 901e6 || row["valid"] != true {
		t.Errorf("the first row is %v", row)
	}
	if int(reader.NumRows()) != len(fixture().Samples) {
		t.Errorf("%d rows", reader.NumRows())
	}
}

func TestSummaryDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(written(t), bundle.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	var document bundle.Summary
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	if document.Format != "weir-summary/1" || document.Manifest.Name != "loss-study" || len(document.Verdicts) != 3 {
		t.Errorf("document %+v", document)
	}
	if len(document.Rows) != 5 || document.Rows[2].Estimate.N != 3 || document.Rows[2].Estimate.Mean != 902e6 {
		t.Errorf("rows %+v", document.Rows)
	}
}

func TestReportAndPlots(t *testing.T) {
	dir := written(t)
	page, err := os.ReadFile(filepath.Join(dir, bundle.ReportFile))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "1 of 3 expectations does not hold") || strings.Contains(string(page), "<script") {
		t.Error("the report lacks its headline or has a script")
	}
	entries, err := os.ReadDir(filepath.Join(dir, bundle.PlotsFolder))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || info.Size() < 1000 {
			t.Errorf("plot %s: %v, %v", entry.Name(), info, err)
		}
		names = append(names, entry.Name())
	}
	for _, want := range []string{"goodput-by-loss.png", "goodput-by-loss.svg", "cdf-rtt-flow-cc-cubic-loss-0.svg", "time-cwnd-cc-cubic-loss-10.png"} {
		if !slices.Contains(names, want) {
			t.Errorf("no plot %s in %q", want, names)
		}
	}
}

func TestCSV(t *testing.T) {
	file, err := os.Open(filepath.Join(written(t), bundle.CSVFile))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"cc", "loss", "subject", "metric", "unit", "repetition", "attempt", "value", "valid", "reason"},
		{"cubic", "0", "aggregate", "goodput", "bit/s", "1", "1", "9.01e+08", "true", ""},
	}
	if diff := cmp.Diff(want, rows[:2]); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if len(rows) != 1+len(fixture().Samples) || rows[10][9] != "the emulator dropped 3 frames" {
		t.Errorf("%d rows, the invalid one is %v", len(rows), rows[10])
	}
}

func TestCSVRenamesLabelsLikeColumns(t *testing.T) {
	var b strings.Builder
	if err := bundle.WriteCSV(&b, []record.Sample{{Labels: record.Labels{"unit": "x"}, Subject: "s"}}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), "label_unit,subject,") {
		t.Errorf("written:\n%s", b.String())
	}
}

func TestJUnit(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(written(t), bundle.JUnitFile))
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suite    []struct {
			Name string `xml:"name,attr"`
			Time string `xml:"time,attr"`
			Case []struct {
				Name    string `xml:"name,attr"`
				Class   string `xml:"classname,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
				Skipped *struct {
					Message string `xml:"message,attr"`
				} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &document); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if document.Tests != 3 || document.Failures != 1 || document.Skipped != 1 || len(document.Suite) != 1 || len(document.Suite[0].Case) != 3 {
		t.Fatalf("%+v\n%s", document, text)
	}
	cases := document.Suite[0].Case
	if cases[0].Name != "CUBIC falls [loss=1%]" || cases[0].Failure != nil || cases[0].Skipped != nil || cases[0].Class != "weir.lab.loss-study" {
		t.Errorf("the verdict that holds: %+v", cases[0])
	}
	if cases[1].Name != hostile || cases[1].Failure == nil || cases[1].Failure.Message != "expected <= 10 %, measured 12 %" {
		t.Errorf("the verdict that fails: %+v", cases[1])
	}
	if cases[2].Skipped == nil || cases[2].Skipped.Message != "this machine carries 500 Mbit/s only" {
		t.Errorf("the verdict that was not measured: %+v", cases[2])
	}
	if strings.Contains(string(text), "<script") {
		t.Error("a name is not escaped")
	}
}

// A disk that fills up: the error says so, and nothing is left.
func TestNoSpaceLeavesNothing(t *testing.T) {
	small := smallDisk(t, 64<<10)
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

func BenchmarkWriteMillionPoints(b *testing.B) {
	content := fixture()
	content.Points = series(1_000_000)
	dir := filepath.Join(b.TempDir(), "b")
	for b.Loop() {
		if err := bundle.Write(dir, content); err != nil {
			b.Fatal(err)
		}
	}
}
