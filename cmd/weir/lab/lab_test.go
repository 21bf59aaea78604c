// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	labrun "weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/bundle"
)

// labCommand runs a command line that needs no privileges.
func labCommand(t *testing.T, args ...string) (status fault.Status, stdout, stderr string) {
	t.Helper()
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	return commands.Call(t, append([]string{"lab"}, args...)...)
}

func TestLabMistakesAreExplained(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(t.TempDir(), "mine.yaml")
	_, source, _ := labCommand(t, "show", "loss-quick", "--source")
	if err := os.WriteFile(mine, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "los-quick"}, `did you mean "loss-quick"?`},
		{[]string{"run", "tiny", "--set", "loss"}, "--set loss gives no value"},
		{[]string{"run", "loss-quick", "--set", "los=1%"}, `unknown parameter "los"`},
		{[]string{"run", mine, "--set", "los=1%"}, "see the parameters with: weir lab show " + mine},
		{[]string{"run", "tiny", "--repetitions", "0"}, "write a number from 1 to 1000"},
		{[]string{"run", "loss-quick", "--set", "loss=101%"}, "write a share from 0 % to 100 %"},
		{[]string{"run", "tiny", "--out", full}, "is not empty"},
		{[]string{"run", "tiny", "--capture=5"}, "write a number from 14"},
		{[]string{"run"}, "weir lab run --help"},
		{[]string{"show", "nothing"}, "weir lab list"},
		{[]string{"compare", full, full}, "is not a bundle"},
		{[]string{"rerun", full}, "is not a bundle"},
		{[]string{"exec", "a", "--", "true"}, "no lab is up"},
		{[]string{"exec", "--lab", "ffffff", "a", "true"}, `no lab "ffffff"`},
		{[]string{"down", "ffffff"}, `no lab "ffffff"`},
		{[]string{"down", "--all", "ffffff"}, "use either --all or IDs"},
		{[]string{"lost"}, "is not a command of weir lab"},
	} {
		status, stdout, stderr := labCommand(t, test.args...)
		if status != fault.Usage || !strings.Contains(stderr, test.want) || stdout != "" {
			t.Errorf("weir lab %v: status %d\n%s%s", test.args, status, stdout, stderr)
		}
	}
}

func TestLabShowAndList(t *testing.T) {
	status, list, _ := labCommand(t, "list")
	if status != fault.OK || !strings.Contains(list, "loss-study") {
		t.Errorf("list: %d\n%s", status, list)
	}
	status, shown, _ := labCommand(t, "show", "tiny")
	if status != fault.OK || !strings.Contains(shown, "1 combination of parameters") || !strings.Contains(shown, "100 Mbit/s") {
		t.Errorf("show: %d\n%s", status, shown)
	}
	_, source, _ := labCommand(t, "show", "tiny", "--source")
	if _, err := scenario.Parse("copy.yaml", []byte(source)); err != nil {
		t.Errorf("the shown source is no scenario: %v", err)
	}
}

func TestRerunTakesEverythingFromTheBundle(t *testing.T) {
	s, err := scenario.Load("loss-quick")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "b")
	manifest := record.Manifest{Kind: "lab", Name: s.Name, Source: s.Source, Seed: 42, Started: time.Now(),
		Parameters: map[string]string{"rate": "100Mbit", "loss": "0%,1%", "repetitions": "7", "generator": "iperf3"}}
	if err := bundle.Write(dir, &record.Bundle{Manifest: manifest}); err != nil {
		t.Fatal(err)
	}
	read, err := bundle.ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := runOptions{generator: "weir", carrier: "auto"}
	again, err := scenarioOf(read, newRerunCommand(&cli.App{}), &o)
	if err != nil {
		t.Fatal(err)
	}
	cells, err := again.Expand()
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 4 || again.Repetitions != 7 || o.seed != 42 || o.generator != "iperf3" || cells[0].Labels["rate"] != "100Mbit" {
		t.Errorf("%d cells, %d repetitions, options %+v, labels %v", len(cells), again.Repetitions, o, cells[0].Labels)
	}
	read.Kind = "tester"
	if _, err := scenarioOf(read, newRerunCommand(&cli.App{}), &o); fault.Of(err) != fault.Usage {
		t.Errorf("a tester's bundle: %v", err)
	}
}

func TestProgressWithoutATerminalIsSparse(t *testing.T) {
	var stderr bytes.Buffer
	show := newProgress(&cli.App{Stderr: &stderr})
	cell := &scenario.Cell{Labels: record.Labels{"loss": "1%", "cc": "bbr"}}
	for done := range 100 {
		show.report(labrun.Event{Stage: labrun.Loading, Cell: cell, Repetition: 1, Phase: "only", Done: done, Total: 100, Left: time.Minute})
	}
	show.report(labrun.Event{Stage: labrun.Invalid, Cell: cell, Repetition: 1, Attempt: 2, Reason: "too late"})
	show.end()
	want := "0 of 100 runs done, about 1m left: cc=bbr loss=1%, repetition 1, measuring (only)\n" +
		"cc=bbr loss=1%, repetition 1, attempt 2 is invalid: too late\n"
	if stderr.String() != want {
		t.Errorf("printed\n%swant\n%s", stderr.String(), want)
	}
}

func TestHolderReportsItsFault(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	_ = tellParent(write)(fault.New(fault.Testbed, "use another machine", "no AF_XDP"))
	answer := make([]byte, 200)
	n, err := read.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	got := holderFault(string(answer[:n]))
	if fault.Of(got) != fault.Testbed || got.Error() != "no AF_XDP" || fault.Advice(got) != "use another machine" {
		t.Errorf("%v, status %d, try %q", got, fault.Of(got), fault.Advice(got))
	}
	if err := cli.Stopped(canceled(), context.Canceled); fault.Of(err) != fault.Failed || err.Error() != "stopped" {
		t.Errorf("stopped: %v", err)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
