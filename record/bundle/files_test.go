// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"weir/kernel/testutil"
	"weir/record"
	"weir/record/bundle"
)

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

// The sums equal those of an independent program, for every file.
func TestSumsAgreeWithSha256sum(t *testing.T) {
	check := exec.Command(testutil.Command(t, "sha256sum"), "--check", "--strict", "--quiet", bundle.SumsFile)
	check.Dir = written(t)
	if output, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, output)
	}
	text, err := os.ReadFile(filepath.Join(check.Dir, bundle.SumsFile))
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(check.Dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files++
		}
		return err
	})
	if listed := strings.Count(string(text), "\n"); err != nil || listed != files-1 {
		t.Errorf("%d of %d files are listed: %v", listed, files-1, err)
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

// Attachments are stored unchanged, with a sum, and never outside the bundle.
func TestAttachments(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(elsewhere, []byte("frames"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &record.Bundle{Attachments: []record.Attachment{{Name: "output/a.txt", Content: []byte("said")}, {Name: "captures/b.pcapng", Path: elsewhere}}}
	dir := filepath.Join(t.TempDir(), "bundle")
	if err := bundle.Write(dir, b); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, bundle.SumsFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"output/a.txt": "said", "captures/b.pcapng": "frames"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, bundle.AttachmentsFolder, name))
			if err != nil || string(text) != want || !strings.Contains(string(sums), bundle.AttachmentsFolder+"/"+name) {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		})
	}
	if _, err := bundle.Read(dir); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"../x", "/x", ""} {
		if err := bundle.Write(filepath.Join(t.TempDir(), "bundle"), &record.Bundle{Attachments: []record.Attachment{{Name: name}}}); err == nil {
			t.Errorf("an attachment %q is written", name)
		}
	}
}
