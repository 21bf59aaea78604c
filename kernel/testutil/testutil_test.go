// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/kernel/netns"
)

func TestDifference(t *testing.T) {
	got := difference([]string{"a", "b", "d", "device weir12345678 up=true xdp=0", "namespace weir-123456-peer", "qdisc noqueue of weir12345678 at root"}, []string{"a", "c", "d"})
	if diff := cmp.Diff([]string{"new: c", "gone: b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A namespace of another program, or of another process's lab, is foreign; one with a Weir name and
// no other owner is not.
func TestWhatOtherProgramsMakeIsTheirs(t *testing.T) {
	other := exec.Command("sleep", "infinity")
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	registry := t.TempDir()
	register := func(id string, pid int) {
		dir := filepath.Join(registry, id)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "instance.json"), fmt.Appendf(nil, `{"pid": %d}`, pid), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	register("testother", os.Getppid())
	register("testchild", other.Process.Pid)
	register("testended", 1<<22+1) // above the kernel's maximum (proc_sys_kernel(5), pid_max)
	for item, want := range map[string]bool{
		"namespace blue": true, "namespace weir-testother-a": true, "cgroup weir-lab-testother": true, "file " + registry + "/testother/lock": true,
		"namespace weir-testchild-a": false, "namespace weir-testended-a": false, "namespace weir-unknown-a": false, "namespace weirtest-1-a": false,
		"file /sys/fs/bpf/weir/limit": false, "file /sys/fs/bpf/tc": true, "device eth9 up=true xdp=0": false, "cgroup weir-run-1": false,
	} {
		t.Run(item, func(t *testing.T) {
			if got := foreign(registry, item); got != want {
				t.Errorf("%s is another's: %t, want %t", item, got, want)
			}
		})
	}
}

// Objects of concurrent programs have changing names; a remain is in every reading.
func TestOnlyWhatLastsIsLeftBehind(t *testing.T) {
	looks := 0
	got := lasts(100*time.Microsecond, func() []string {
		looks++
		return []string{"new: left", fmt.Sprint("new: of others ", looks)}
	})
	if diff := cmp.Diff([]string{"new: left"}, got); diff != "" || looks < 2 {
		t.Errorf("after %d looks (-want +got):\n%s", looks, diff)
	}
	looks = 0
	got = lasts(time.Hour, func() []string {
		looks++
		return []string{fmt.Sprint("new: of others ", looks)}
	})
	if len(got) > 0 || looks != 2 {
		t.Errorf("%q after %d looks, want nothing after the second", got, looks)
	}
}

func TestInventorySeesANamespace(t *testing.T) {
	ns := Namespace(t, "seen")
	if items := inventory(t); !slices.Contains(items, "namespace "+ns.Name) || !slices.IsSorted(items) {
		t.Errorf("%s is not in the sorted list %q", ns.Name, items)
	}
}

func TestSnapshotForgivesWhatIsCleanedUp(t *testing.T) {
	Snapshot(t)
	name := ownName("snapshot")
	ns, err := netns.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ns.Close()
		if err := netns.Remove(name); err != nil {
			t.Error(err)
		}
	})
}

func TestKnownAbsent(t *testing.T) {
	if !KnownAbsent("uml", "jit") || KnownAbsent("x86", "jit") || KnownAbsent("uml", "netem") {
		t.Error("the table of what the test kernels lack does not hold")
	}
}

// TestMissedTestsAreNoted checks the file that testkernel/test -m reads.
func TestMissedTestsAreNoted(t *testing.T) {
	list, folder := filepath.Join(t.TempDir(), "missed"), t.TempDir()
	t.Setenv("WEIR_TEST_MISSED", list)
	t.Setenv("TEST_KERNEL", "")
	t.Chdir(folder)
	for _, test := range []string{"TestA/with_cases/1", "TestB"} {
		if err := noteMissed(test); err != nil {
			t.Fatal(err)
		}
	}
	want := folder + " TestA\n" + folder + " TestB\n"
	if got, err := os.ReadFile(list); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	t.Setenv("TEST_KERNEL", "uml") // nothing is noted there
	if err := noteMissed("TestC"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(list); err != nil || string(got) != want {
		t.Errorf("under a test kernel: %q, %v; want %q", got, err, want)
	}
}
