// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weir/kernel/netns"
	"weir/kernel/testutil"
)

func TestShellsAreOfferedWhatThereIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nscopes:\n  rack: {prefix: 10.1.0.0/16, egress: 5Gbit}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ line, want string }{
		{"lab run ", "loss-quick\t"},
		{"lab show ", "loss-quick\t"},
		{"status --format ", "json"},
		{"prove " + file + " --scope ", "rack\tremote prefix 10.1.0.0/16"},
		{"prove --congestion ", "cubic"},
		{"cc install ", "dctcp"},
		{"lab run --carrier ", "emulator"},
		{"lab run --generator ", "iperf3"},
		{"plan ", "yaml"},
	} {
		// The last word is the one to complete.
		args := append([]string{cobra.ShellCompRequestCmd}, strings.Split(test.line, " ")...)
		if _, stdout, stderr := call(t, args...); !strings.Contains(stdout, test.want) {
			t.Errorf("weir %s: %q, want %q (%s)", test.line, stdout, test.want, stderr)
		}
	}
}

func TestShellsAreOfferedDevicesOfNamespaces(t *testing.T) {
	ns := testutil.Namespace(t, "complete")
	ip := testutil.Command(t, "ip")
	if err := ns.Do(func() error {
		return exec.Command(ip, "link", "add", "port0", "type", "veth", "peer", "name", "port1").Run()
	}); err != nil {
		t.Fatal(err)
	}
	var name string
	all, err := netns.List("")
	if err != nil {
		t.Fatal(err)
	}
	_, stdout, _ := call(t, cobra.ShellCompRequestCmd, "tester", "send", "--from", "")
	for _, candidate := range all {
		if !strings.Contains(stdout, candidate+":\n") {
			t.Errorf("%q does not offer the namespace %s", stdout, candidate)
		}
		if _, inside, _ := call(t, cobra.ShellCompRequestCmd, "tester", "send", "--from", candidate+":"); strings.Contains(inside, candidate+":port0\n") {
			name = candidate
		}
	}
	if name == "" {
		t.Errorf("the device port0 is offered in none of the namespaces %q", all)
	}
}

func TestEveryManPageHasTheSectionsOfTheConventions(t *testing.T) {
	folder := t.TempDir()
	if status, _, stderr := call(t, "man", folder); status != 0 {
		t.Fatal(stderr)
	}
	pages, err := filepath.Glob(filepath.Join(folder, "*.1"))
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages (%v)", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{".SH NAME", ".SH EXIT STATUS", ".SH FILES", ".SH ENVIRONMENT"} {
			if strings.Count(string(text), want+"\n") != 1 {
				t.Errorf("%s: not one %s", filepath.Base(page), want)
			}
		}
	}
	for page, want := range map[string]string{"weir-daemon": `WATCHDOG_USEC`, "weir-apply": `/etc/weir/policy.yaml`, "weir-run": "That of the program", "weir": `/run/weir/api.sock`} {
		text, err := os.ReadFile(filepath.Join(folder, page+".1"))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not name %s (%v)", page, want, err)
		}
	}
}
