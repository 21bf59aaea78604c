// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	changed := &record.Bundle{Manifest: record.Manifest{Name: "second"}}
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
	if err := bundle.Write(t.TempDir(), changed); err != nil {
		t.Errorf("an empty folder is refused: %v", err)
	}
}

func TestSweepsWhatAKilledWriterLeft(t *testing.T) {
	parent := t.TempDir()
	dead := exec.Command("/bin/true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	stale := fmt.Sprintf(".b.weir-partial-%d-00000001", dead.Process.Pid)
	others := []string{fmt.Sprintf(".b.weir-partial-%d-00000002", os.Getpid()), ".c.weir-partial-999999999-00000003", ".b.weir-mine", ".b"}
	for _, name := range append(others, stale) {
		if err := os.Mkdir(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := bundle.Write(filepath.Join(parent, "b"), &record.Bundle{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(parent, stale)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", stale, err)
	}
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(parent, name)); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
}

func TestReplacesThroughALink(t *testing.T) {
	parent := t.TempDir()
	link := filepath.Join(parent, "latest")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(parent, "real"), link} {
		if err := bundle.Write(dir, &record.Bundle{Manifest: record.Manifest{Name: dir}}); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := bundle.ReadManifest(filepath.Join(parent, "real")); err != nil || m.Name != link {
		t.Errorf("manifest %+v, %v", m, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info, err)
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
