// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/cmd/weir/cli"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// Every flag with a value has a completion function, except numbers and durations.
func TestEveryFlagHasACompletion(t *testing.T) {
	flags := 0
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		command.LocalFlags().VisitAll(func(f *pflag.Flag) {
			switch kind := f.Value.Type(); {
			case kind == "bool", kind == "duration", f.Hidden, strings.HasPrefix(kind, "int") && !strings.HasSuffix(kind, "Slice"), strings.HasPrefix(kind, "uint"):
				return
			}
			flags++
			if _, decided := command.GetFlagCompletionFunc(f.Name); !decided {
				t.Errorf("%s --%s: give it what a shell may offer, in flagValues", command.CommandPath(), f.Name)
			}
		})
		for _, sub := range command.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&cli.App{}))
	if flags < 80 {
		t.Errorf("%d flags were looked at", flags)
	}
}

// offers returns the completions of the last word of a line, and the directive's name.
func offers(t *testing.T, line string) string {
	t.Helper()
	_, stdout, _ := call(t, append([]string{cobra.ShellCompRequestCmd}, strings.Split(line, " ")...)...)
	return "\n" + stdout
}

// Flags complete values that are fixed or can be read from the host.
func TestCompletionOfFlagValues(t *testing.T) {
	folder := t.TempDir()
	policy, scenarioFile := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "s.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\nscopes:\n  rack: {prefix: 10.1.0.0/16, egress: 5Gbit}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, source, _ := call(t, "lab", "show", "--source", "loss-quick")
	if err := os.WriteFile(scenarioFile, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	self := strconv.Itoa(os.Getpid())
	for _, test := range []struct{ line, want string }{
		{"status --format ", "text\n"},
		{"apply --format ", "json\n"},
		{"run --class ", "lbe\tDSCP 1\n"},
		{"run --class ", "af21\tDSCP 18\n"},
		{"run --class=pre", "premium\tDSCP 46\n"},
		{"run --user ", "root\t0\n"},
		{"run --pid ", self + "\t"},
		{"tester run --dscp ", "ef\tDSCP 46\n"},
		{"tester send --dscp ", "cs1\tDSCP 8\n"},
		{"tester run --size ", "imix\n"},
		{"tester run --rate ", "max\n"},
		{"tester send --policy ", "catch-up\n"},
		{"tester run --cpus ", "0\n"},
		{"tester run --metrics ", "127.0.0.1:9465\t"},
		{"tester join --clock ", "relative\n"},
		{"tester replay --speed ", "max\n"},
		{"tester rfc2544 --sizes ", "64\n"},
		{"tester rfc2544 --sizes 64,", "64,1518\n"},
		{"tester rfc2544 --tests throughput,", "throughput,frame-loss\n"},
		{"lab run --carrier ", "netem\n"},
		{"lab rerun --generator ", "iperf3\n"},
		{"lab run loss-quick --set ", "loss=\t"},
		{"lab run loss-quick --set loss=", "loss=1%\n"},
		{"lab up " + scenarioFile + " --set loss=1%,", "loss=1%,3%\n"},
		{"lab show loss-quick --set ", "rate=\t"},
		{"prove " + policy + " --scope ", "rack\t"},
		{"prove --congestion ", "cubic\n"},
		{"ioam watch --trace-per ", "flow\n"},
		{"daemon --listen ", "127.0.0.1:9464\t"},
	} {
		if got := offers(t, test.line); !strings.Contains(got, "\n"+test.want) {
			t.Errorf("weir %s: %q, want %q", test.line, got, test.want)
		}
	}
	for line, not := range map[string]string{
		"tester rfc2544 --tests throughput,": "throughput,throughput",
		"tester run --dscp ":                 "lbe", // a class, which the tester does not know
		"lab run loss-quick --set loss=1%,":  "loss=1%,1%\n",
		"lab run --set ":                     "loss=",
		"ioam watch --to ":                   "eth",
		"prove --peer ":                      "eth",
	} {
		if got := offers(t, line); strings.Contains(strings.SplitAfter(got, "\n:")[0], not) {
			t.Errorf("weir %s: %q has %q", line, got, not)
		}
	}
	const noFiles, someFiles, onlyFolders = ":4\n", ":0\n", ":16\n"
	for line, want := range map[string]string{"run --limit ": noFiles, "prove --peer ": noFiles, "run --summary ": someFiles, "prove --token-file ": someFiles,
		"tester run --capture ": someFiles, "lab run --out ": onlyFolders, "cc install --cgroup ": onlyFolders} {
		if got := offers(t, line); !strings.Contains(got, want) {
			t.Errorf("weir %s: %q, want the directive %q", line, got, want)
		}
	}
}

func TestForwardersAreOfferedNamespacesAndTheirDevices(t *testing.T) {
	ns := testutil.Namespace(t, "forwarder")
	ip := testutil.Command(t, "ip")
	if err := ns.Do(func() error {
		return exec.Command(ip, "link", "add", "in0", "type", "veth", "peer", "name", "out0").Run()
	}); err != nil {
		t.Fatal(err)
	}
	names, err := netns.List("")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, name := range names {
		if got := offers(t, "tester rfc2544 --forwarder "+name+":"); strings.Contains(got, fmt.Sprintf("\n%s:in0,\n", name)) {
			found = true
			if got := offers(t, "tester rfc2544 --forwarder "+name+":in0,"); !strings.Contains(got, fmt.Sprintf("\n%s:in0,out0\n", name)) || strings.Contains(got, ",in0\n") {
				t.Errorf("the second device: %q", got)
			}
		}
	}
	if !found {
		t.Errorf("in0 is offered in none of the namespaces %q", names)
	}
}
