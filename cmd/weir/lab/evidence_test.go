// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/record"
	"weir/record/bundle"
)

func measuredBundle() *record.Bundle {
	b := &record.Bundle{Manifest: record.Manifest{Kind: "lab", Name: "some"}}
	for i := range 3 {
		b.Samples = append(b.Samples, record.Sample{Subject: "bulk", Metric: "goodput", Unit: record.BitPerSecond, Repetition: i + 1, Attempt: 1, Value: 1e6 + float64(i), Valid: true})
	}
	return b
}

// If the output folder is not writable, the evidence goes to another one.
func TestEvidenceThatCannotBeWrittenGoesElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	a := &cli.App{Stdout: &bytes.Buffer{}, Stderr: &said}
	asked := filepath.Join(file, "below", "a file")
	dir, err := keepEvidence(a, asked, "", measuredBundle())
	if err == nil || dir == "" || dir == asked || !strings.Contains(said.String(), asked) || !strings.Contains(said.String(), dir) {
		t.Fatalf("folder %q, error %v, said %q", dir, err, said.String())
	}
	kept, err := bundle.Read(dir)
	if err != nil || len(kept.Samples) != 3 {
		t.Errorf("kept %+v, %v", kept, err)
	}
	if dir, err := keepEvidence(a, "here", "", measuredBundle()); err != nil || dir != "here" {
		t.Errorf("folder %q, error %v", dir, err)
	}
}

func TestComparisonShowsBothAndWhatDoesNotDiffer(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	for _, dir := range []string{first, second} {
		if err := bundle.Write(dir, measuredBundle()); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(t.TempDir(), "three")
	proof := measuredBundle()
	proof.Manifest.Kind = "prove"
	if err := bundle.Write(other, proof); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := labCommand(t, "compare", first, other); status != fault.Usage || !strings.Contains(stderr, "by weir prove: they have no quantity in common") {
		t.Errorf("bundles of two commands: status %d, %s", status, stderr)
	}
	status, stdout, stderr := labCommand(t, "compare", first, second)
	for _, want := range []string{first, second, "plots", "No significant difference", "goodput", "1 Mbit/s"} {
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("status %d, %q is missing in\n%s%s", status, want, stdout, stderr)
		}
	}
}

func TestOverlayIsABundle(t *testing.T) {
	folder := t.TempDir()
	before, after, out := filepath.Join(folder, "run-1"), filepath.Join(folder, "run-2"), filepath.Join(folder, "all")
	for i, dir := range []string{before, after} {
		b := measuredBundle()
		b.Figures = []record.Figure{{Name: "goodput", Title: "Goodput", Kind: record.Lines, Curves: []record.Curve{{Name: "bulk", X: []float64{0, 1}, Y: []float64{1, float64(i)}}}}}
		if err := bundle.Write(dir, b); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := labCommand(t, "overlay", "old="+before, after, "--out", out)
	if status != 0 || !strings.Contains(stdout, "old; run-2") || !strings.Contains(stdout, filepath.Join(out, "report.html")) {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	all, err := bundle.Read(out)
	if err != nil || len(all.Figures) != 1 || len(all.Figures[0].Curves) != 2 || len(all.Samples) != 6 || all.Manifest.Kind != "overlay" {
		t.Errorf("%+v, %v", all, err)
	}
	if status, _, stderr := labCommand(t, "overlay", before, before, "--out", out); status != fault.Usage || !strings.Contains(stderr, "two bundles have the name") {
		t.Errorf("a bundle twice: status %d, %s", status, stderr)
	}
}
