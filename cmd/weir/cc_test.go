// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/internal/fault"
	"weir/kernel/testutil"
	"weir/modules/cc"
)

func TestCCListNamesTheKernelsControls(t *testing.T) {
	status, stdout, stderr := call(t, "cc", "list", "--format", "json")
	var document struct {
		Format   string       `json:"format"`
		Controls []cc.Control `json:"controls"`
	}
	if err := json.Unmarshal([]byte(stdout), &document); err != nil || status != fault.OK {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	isReno := func(c cc.Control) bool { return c.Name == "reno" && !c.Restricted } // every kernel has it, unrestricted
	if document.Format != "weir-cc-list/1" || !slices.ContainsFunc(document.Controls, isReno) {
		t.Errorf("listed %+v", document)
	}
	if status, stdout, _ := call(t, "cc", "list"); status != fault.OK || !strings.Contains(stdout, "reno") {
		t.Errorf("status %d: %q", status, stdout)
	}
}

func TestCCWrongUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"cc", "install", "dctpc"}, "dctcp"},
		{[]string{"cc", "install"}, "weir cc install --help"},
		{[]string{"cc", "remove", "weir_never_made"}, "weir cc list"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			status, _, stderr := call(t, test.args...)
			if status != fault.Usage || !strings.Contains(stderr, test.want) {
				t.Errorf("status %d, %q lacks %q", status, stderr, test.want)
			}
		})
	}
}

// The generic commands plan, apply, show, prove and release a congestion control of the kernel.
func TestCongestionControlOfAScope(t *testing.T) {
	testutil.Need(t, "jit", match.Cgroup.Needs(ebpf.SockOps))
	g, file := newGround(t)
	save(t, file, "a: {cgroup: /a, congestion: never-made}")
	g.weir(t, fault.Testbed, "apply", file)
	save(t, file, "a: {cgroup: /a, congestion: reno}", "b: {user: 4711, parent: a}")
	contains(t, "plan", g.weir(t, fault.OK, "plan", file), "congestion reno", "sock_ops sets a control of the kernel's; by cgroup id")
	g.weir(t, fault.OK, "apply", file)
	contains(t, "status", g.weir(t, fault.OK, "status"), "given it", "without ECN", "chose another", "enforced")
	contains(t, "proof", g.weir(t, fault.OK, "prove", "--duration", "200ms", "--repetitions", "1", "--scope", "a", file), "congestion", "reno", "holds")
	save(t, file, "a: {cgroup: /a, tally: 1}")
	contains(t, "apply", g.weir(t, fault.OK, "apply", file), "congestion reno")
	g.weir(t, fault.OK, "release")
	g.nothingLeft(t)
}
