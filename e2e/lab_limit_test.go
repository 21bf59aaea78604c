// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/tc"
	"weir/kernel/testutil"
)

// twoLimits is a long run with one host limited by BPF and another by a queue.
const twoLimits = `
version: 1
title: two limits
hosts: [a, b, c]
links: [{ends: [a, b], plain: true}, {ends: [c, b], plain: true}]
limits:
  - {name: programs, host: a, mechanism: police, rate: 5Mbit}
  - {name: queue, host: c, mechanism: htb, rate: 5Mbit}
phases:
  - duration: 60s
    flows:
      - {name: one, kind: bulk, from: a, to: b, congestion: cubic}
      - {name: two, kind: bulk, from: c, to: b, congestion: cubic}
`

// cgroups lists the cgroups of all labs that were in the directory.
func (l *labs) cgroups(t *testing.T) (found []string) {
	t.Helper()
	root, err := cgroup.Root()
	if err != nil {
		t.Fatal(err)
	}
	l.namespaces(t)
	for id := range l.seen {
		if path := filepath.Join(root, "weir-lab-"+id); exists(path) {
			found = append(found, path)
		}
	}
	return found
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// queued reports whether an htb in one of the labs' namespaces has sent anything.
func (l *labs) queued(t *testing.T) bool {
	return slices.ContainsFunc(l.namespaces(t), func(name string) bool {
		ns, err := netns.Open(name)
		if err != nil {
			return false
		}
		defer func() { _ = ns.Close() }()
		conn, err := tc.Open(ns)
		if err != nil {
			return false
		}
		defer conn.Close()
		qdiscs, err := conn.List("c-b")
		return err == nil && slices.ContainsFunc(qdiscs, func(q tc.Qdisc) bool { return q.Kind == "htb" && q.Bytes > 0 })
	})
}

// A run killed with active limits leaves namespaces with queues, and cgroups; the next command
// removes both. Programs and maps, which are not pinned, end with their process.
func TestKillInTheMiddleOfALimitedRun(t *testing.T) {
	own := ownLabs(t)
	testutil.Need(t, "cgroup v2", probe.CgroupV2())
	testutil.Need(t, "htb", probe.Qdisc("htb"))
	file := filepath.Join(t.TempDir(), "two.yaml")
	if err := os.WriteFile(file, []byte(twoLimits), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr := command(t, "lab", "run", file, "--share", "--out", filepath.Join(t.TempDir(), "out"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 30*time.Second, "traffic under the limits", func() bool { return own.queued(t) })
	groups := own.cgroups(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := finish(t, cmd, cmd.Wait(), stdout, stderr); got.status != -1 {
		t.Fatalf("ended with status %d, want to be killed\n%s", got.status, got.stderr)
	}
	if len(groups) != 1 || len(own.cgroups(t)) != 1 || len(own.namespaces(t)) == 0 {
		t.Fatalf("cgroups %v before and %v after the kill: the test shows nothing", groups, own.cgroups(t))
	}
	weir(t, "lab", "list").want(t, 0)
	own.gone(t, "after the next command")
	if left := own.cgroups(t); len(left) > 0 {
		t.Errorf("left behind after the next command: %v", left)
	}
}
