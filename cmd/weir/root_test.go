// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/parts"
	"weir/internal/child"
	"weir/internal/fault"
)

func TestFlagsComeBeforeTheOtherCommand(t *testing.T) {
	for _, args := range [][]string{{"run", "--help"}, {"lab", "exec", "--help"}} {
		status, stdout, _ := call(t, args...)
		if status != fault.OK || !strings.Contains(stdout, " [flags] -- COMMAND [ARGUMENT...]\n") {
			t.Errorf("%v: status %d\n%s", args, status, stdout)
		}
	}
}

func TestMain(m *testing.M) {
	all := parts.All()
	all["toy-apply"] = toyApplyPart
	child.Main(all)
	os.Exit(m.Run())
}

// call runs one command line and returns its exit status, standard output and standard error.
func call(t *testing.T, args ...string) (fault.Status, string, string) {
	t.Helper()
	var stdout, stderr strings.Builder
	status := execute(context.Background(), args, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

func TestWrongUsageNamesTheWayOut(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"an unknown command", []string{"lap"}, []string{`"lap" is not a command of weir`, "Try:"}},
		{"a mistyped command", []string{"docter"}, []string{`"docter" is not a command of weir`, "did you mean doctor?"}},
		{"a mistyped command below", []string{"lab", "lsit"}, []string{`"lsit" is not a command of weir lab`, "did you mean list?"}},
		{"help of a mistyped command", []string{"docter", "--help"}, []string{`"docter" is not a command of weir`, "did you mean doctor?"}},
		{"help of a mistyped command below", []string{"lab", "lsit", "--help"}, []string{`"lsit" is not a command of weir lab`, "did you mean list?"}},
		{"help with a mistyped command", []string{"help", "lab", "lsit"}, []string{`"lsit" is not a command of weir lab`, "did you mean list?"}},
		{"help with no command", []string{"help", "nosuch"}, []string{`"nosuch" is not a command of weir`, "weir --help"}},
		{"a shell that is not known", []string{"completion", "tcsh"}, []string{`"tcsh" is not a command of weir completion`, "Try:"}},
		{"a mistyped flag", []string{"doctor", "--formt", "json"}, []string{`unknown flag: --formt (did you mean "--format"?)`, "weir doctor --help"}},
		{"an unknown flag", []string{"man", "--fast"}, []string{"unknown flag: --fast", "weir man --help"}},
		{"an unknown format", []string{"man", "/nowhere", "--format", "xml"}, []string{`--format "xml"`, "--format json"}},
		{"a missing argument", []string{"man"}, []string{"an argument is missing", "write: weir man DIRECTORY", "weir man --help"}},
		{"too many arguments", []string{"plan", "a.yaml", "b.yaml"}, []string{`"b.yaml" is one argument too many`, "write: weir plan [POLICY]"}},
		{"neither a command nor a process", []string{"run", "--class", "lbe"}, []string{"give either a command or --pid"}},
		{"a command and a process", []string{"run", "--class", "lbe", "--pid", "1", "--", "true"}, []string{"give either a command or --pid"}},
		{"a user for a process", []string{"run", "--class", "lbe", "--pid", "1", "--user", "root"}, []string{"--user is for a command", "leave one of them out"}},
		{"no time between looks", []string{"daemon", "--look", "0s", "p.yaml"}, []string{"--look 0s is outside 100ms to 1h", "write --look 5s"}},
		{"a negative time between looks", []string{"daemon", "--look", "-5s", "p.yaml"}, []string{"--look -5s is outside 100ms to 1h", "write --look 5s"}},
		{"two policies", []string{"daemon", "a.yaml", "b.yaml"}, []string{`"b.yaml" is one argument too many`}},
		{"an argument where there is none", []string{"status", "p.yaml"}, []string{`"p.yaml" is one argument too many`, "write: weir status"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, stdout, stderr := call(t, test.args...)
			if status != fault.Usage {
				t.Errorf("status %d, want %d", status, fault.Usage)
			}
			if stdout != "" {
				t.Errorf("printed a result: %q", stdout)
			}
			for _, want := range test.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr %q lacks %q", stderr, want)
				}
			}
		})
	}
}

func TestHelpIsThatOfTheCommand(t *testing.T) {
	for want, args := range map[string][]string{
		"weir lab list": {"help", "lab", "list"}, "weir lab": {"lab", "--help"}, "weir class": {"help", "class"}, "weir completion": {"completion"},
	} {
		if status, stdout, stderr := call(t, args...); status != fault.OK || !strings.Contains(stdout, "Usage:\n  "+want+" ") || stderr != "" {
			t.Errorf("%q: status %d, %s%s", args, status, stdout, stderr)
		}
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "completion" || c.Name() == "help" || c.Hidden {
			return
		}
		if c.Short == "" {
			t.Errorf("%s has no short help", c.CommandPath())
		}
		if c.Runnable() && !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&cli.App{Stdout: os.Stdout, Stderr: os.Stderr}))
}

func TestManPagesAreWritten(t *testing.T) {
	dir := t.TempDir()
	if status, _, stderr := call(t, "man", dir); status != fault.OK {
		t.Fatalf("status %d: %s", status, stderr)
	}
	page, err := os.ReadFile(filepath.Join(dir, "weir.1"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), ".SH NAME") {
		t.Error("weir.1 is no man page")
	}
}

func TestWhatManWritesIsListedAsJSON(t *testing.T) {
	dir := t.TempDir()
	status, stdout, stderr := call(t, "man", dir, "--format", "json")
	var document struct {
		Format string   `json:"format"`
		Pages  []string `json:"pages"`
	}
	if err := json.Unmarshal([]byte(stdout), &document); err != nil || status != fault.OK || stderr != "" {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if slices.Sort(document.Pages); err != nil || document.Format != "weir-man/1" || !slices.Equal(document.Pages, files) {
		t.Errorf("%s lists %q, and there are %q", document.Format, document.Pages, files)
	}
}

// An unwritable output file or folder is an error before the measurement or command starts. The
// check leaves no file behind.
func TestPlacesThatCannotBeWrittenAreRefusedFirst(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"prove", "--out", file + "/out"},
		{"prove", "--out", "/proc/out"},
		{"prove", "--junit", dir},
		{"prove", "--junit", dir + "/missing/junit.xml"},
		{"run", "--limit", "1Mbit", "--summary", "/proc/summary", "--", "touch", dir + "/ran"},
		{"lab", "run", "loss-quick", "--out", "/proc/out"},
	} {
		if status, _, stderr := call(t, args...); status != fault.Usage || !strings.Contains(stderr, "Try:   ") {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
	for _, out := range []string{dir + "/new", dir + "/a/b/new"} {
		if err := cli.CheckOut(out); err != nil {
			t.Errorf("%s: %v", out, err)
		}
	}
	if err := cli.CheckFile("--summary", file); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
