// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// labs records the labs seen in the test's own instance directory.
type labs struct {
	dir  string
	seen map[string]bool
}

// ownLabs gives the test's commands a separate instance directory.
func ownLabs(t *testing.T) *labs {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Snapshot(t)
	dir := t.TempDir()
	t.Setenv("WEIR_RUN_DIR", dir)
	return &labs{filepath.Join(dir, "lab"), map[string]bool{}}
}

// namespaces lists the namespaces of all labs that were in the directory.
func (l *labs) namespaces(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(l.dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			l.seen[entry.Name()] = true
		}
	}
	var all []string
	for id := range l.seen {
		names, err := netns.List("weir-" + id + "-")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, names...)
	}
	return all
}

// gone fails the test if a namespace or an entry of a lab is left.
func (l *labs) gone(t *testing.T, when string) {
	t.Helper()
	left := l.namespaces(t)
	entries, err := filepath.Glob(filepath.Join(l.dir, "[^.]*"))
	if err != nil {
		t.Fatal(err)
	}
	if left = append(left, entries...); len(left) > 0 {
		t.Errorf("left behind %s: %v", when, left)
	}
}

func TestTinyRunLeavesABundleAndNothingElse(t *testing.T) {
	own := ownLabs(t)
	out := filepath.Join(t.TempDir(), "bundle")
	got := weir(t, "lab", "run", "tiny", "--out", out, "--format", "json")
	// On busy CPUs the run is invalid, which it reports, and its evidence is written all the same.
	if rejected := strings.Contains(got.stderr, "is invalid: "); got.status != 3 || !rejected {
		got.want(t, 0)
	}
	var summary struct {
		Format   string `json:"format"`
		Verdicts []any  `json:"verdicts"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &summary); err != nil {
		t.Fatalf("standard output is not one JSON document: %v\n%s", err, got.stdout)
	}
	if summary.Format == "" {
		t.Error("the document has no format")
	}
	for _, name := range []string{"manifest.json", "samples.parquet", "samples.csv", "junit.xml", "report.html"} {
		info, err := os.Stat(filepath.Join(out, name))
		if err != nil || info.Size() == 0 {
			t.Errorf("bundle file %s: %v", name, err)
		}
	}
	report, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, outside := range []string{`src="http`, `href="http`, "@import"} {
		if strings.Contains(string(report), outside) {
			t.Errorf("the report needs the network: %s", outside)
		}
	}
	own.gone(t, "by a run")
}

// started runs a long scenario and returns once its namespaces exist.
func (l *labs) started(t *testing.T, out string) (*exec.Cmd, func() outcome) {
	t.Helper()
	l.namespaces(t)
	old := maps.Clone(l.seen)
	cmd, stdout, stderr := command(t, "lab", "run", "tiny", "--repetitions", "50", "--out", out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The run itself removes the remains of killed ones, so only the namespaces of a new lab count.
	testutil.Eventually(t, 20*time.Second, "the lab's namespaces", func() bool {
		return slices.ContainsFunc(l.namespaces(t), func(name string) bool { return !old[strings.Split(name, "-")[1]] })
	})
	return cmd, func() outcome { return finish(t, cmd, cmd.Wait(), stdout, stderr) }
}

func TestInterruptKeepsWhatWasMeasured(t *testing.T) {
	own := ownLabs(t)
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		out := filepath.Join(t.TempDir(), "bundle")
		cmd, wait := own.started(t, out)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		got := wait()
		got.want(t, 1)
		own.gone(t, "after "+signal.String())
	}
}

func TestKillLeavesNothingThatTheNextCommandDoesNotRemove(t *testing.T) {
	own := ownLabs(t)
	for i := range 3 {
		cmd, wait := own.started(t, filepath.Join(t.TempDir(), fmt.Sprint(i)))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if got := wait(); got.status != -1 {
			t.Fatalf("ended with status %d, want to be killed", got.status)
		}
	}
	if len(own.namespaces(t)) == 0 {
		t.Fatal("the killed runs left no namespace: the test shows nothing")
	}
	weir(t, "lab", "list").want(t, 0)
	own.gone(t, "after the next command")
}

func TestUnprivilegedUserIsToldWhatIsNeeded(t *testing.T) {
	testutil.NeedRoot(t)
	for _, args := range [][]string{{"lab", "run", "tiny", "--out", "/tmp/weir-e2e-never"}, {"doctor"}} {
		cmd, stdout, stderr := command(t, args...)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		got := finish(t, cmd, cmd.Run(), stdout, stderr)
		if got.status != 4 {
			t.Errorf("weir %v: status %d, want 4\n%s%s", args, got.status, got.stdout, got.stderr)
		}
		if !strings.Contains(got.stdout+got.stderr, "root") && !strings.Contains(got.stdout+got.stderr, "CAP_") {
			t.Errorf("weir %v does not say what is needed:\n%s%s", args, got.stdout, got.stderr)
		}
	}
}

func TestFullDiskIsSaidAndLeavesNoHalfBundle(t *testing.T) {
	own := ownLabs(t)
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=16k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, 0) })
	cmd, stdout, stderr := command(t, "lab", "run", "tiny", "--out", filepath.Join(disk, "bundle"))
	cmd.Dir = t.TempDir() // the bundle is kept there instead
	got := finish(t, cmd, cmd.Run(), stdout, stderr)
	got.want(t, 1)
	if !strings.Contains(got.stderr, "no space left") {
		t.Errorf("stderr does not say that the disk is full:\n%s", got.stderr)
	}
	if _, err := os.Stat(filepath.Join(disk, "bundle", "manifest.json")); err == nil {
		t.Error("half a bundle stands there as if it were whole")
	}
	own.gone(t, "by a run on a full disk")
}

func TestExecRunsInsideAHostOfARunningLab(t *testing.T) {
	own := ownLabs(t)
	cmd, _, _ := command(t, "lab", "up", "tiny")
	cmd.Stdout = nil
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(pipe)
	if !scanner.Scan() {
		t.Fatal("lab up says nothing")
	}
	got := weir(t, "lab", "exec", "client", "--", "ip", "-brief", "address")
	got.want(t, 0)
	if !strings.Contains(got.stdout, "10.") {
		t.Errorf("no address inside the host:\n%s", got.stdout)
	}
	got = weir(t, "lab", "exec", "client", "--", "cat", "/etc/hosts")
	got.want(t, 0)
	if !strings.Contains(got.stdout, " server\n") || !strings.Contains(got.stdout, " client\n") {
		t.Errorf("hosts do not know each other by name:\n%s", got.stdout)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for scanner.Scan() {
		t.Log(scanner.Text())
	}
	_ = cmd.Wait()
	own.gone(t, "by lab up")
}

func TestBadInputIsNamedWithAWayOut(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const head = "version: 1\nname: x\n"
	for _, test := range []struct {
		name, file string
		want       []string
	}{
		{"an unknown key", write("key.yaml", head+"host: {a: {}}\n"), []string{"key.yaml:3", "host", "hosts"}},
		{"not YAML", write("syntax.yaml", "a: [\n"), []string{"syntax.yaml"}},
		{"an unknown scenario", "loss-stdy", []string{"loss-stdy", "loss-study"}},
		{"an empty file", write("empty.yaml", ""), []string{"empty.yaml"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := weir(t, "lab", "show", test.file)
			got.want(t, 2)
			for _, want := range append(test.want, "Try:") {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, got.stderr)
				}
			}
		})
	}
}
