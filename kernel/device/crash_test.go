// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// former is a tree with all kinds that the smallest test kernel has.
const former = `qdisc add dev a root handle 1: htb default 20
class add dev a parent 1: classid 1:1 htb rate 100mbit
class add dev a parent 1:1 classid 1:20 htb rate 10mbit ceil 100mbit
class add dev a parent 1:1 classid 1:30 htb rate 20mbit ceil 100mbit
qdisc add dev a parent 1:20 handle 20: pfifo limit 9
filter add dev a parent 1: protocol ip prio 5 u32 match ip dst 192.0.2.0/24 flowid 1:30`

// TestMain is the child process too: it replaces or restores, and kills itself before a step.
func TestMain(m *testing.M) {
	work := os.Getenv("WEIR_TEST_DEVICE")
	if work == "" {
		os.Exit(m.Run())
	}
	var record device.Record
	var at int
	ns, err := netns.Open(os.Getenv("WEIR_TEST_NAMESPACE"))
	if work == "attach" && err == nil {
		err = attachAndDie(ns)
	}
	if err == nil {
		err = json.Unmarshal([]byte(os.Getenv("WEIR_TEST_RECORD")), &record)
	}
	_, scanned := fmt.Sscan(os.Getenv("WEIR_TEST_STEP"), &at)
	if err = errors.Join(err, scanned); err == nil {
		step := func() {
			if at == 0 {
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			}
			at--
		}
		if work == "replace" {
			err = record.ReplaceIn(ns, ours(), step)
		} else {
			err = record.RestoreIn(ns, step)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func attachAndDie(ns *netns.Namespace) error {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	if err == nil {
		_, err = device.Attach(ns, "a", device.Egress, 1, "short", program, device.Options{Mechanism: device.Clsact})
	}
	if err == nil {
		err = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	return err
}

// Sweep removes the unpinned filters of killed processes, and clsact with the last one.
func TestSweepTakesFiltersOfTheDead(t *testing.T) {
	testutil.NeedRoot(t)
	ns := bench(t, "1")
	if killed(t, ns, device.Record{}, "attach", 0) {
		t.Fatal("the child lives")
	}
	if got := run(t, ns, "tc", "filter show dev a egress"); !strings.Contains(got, "weir/1/short/") {
		t.Fatalf("left is %q", got)
	}
	must(t, device.Sweep(ns, "a"))
	if got := run(t, ns, "tc", "qdisc show dev a"); strings.Contains(got, "clsact") {
		t.Errorf("left after sweeping: %s", got)
	}
}

// Programs referenced only by filters of the former tree survive until the tree is restored.
func TestProgramsOfFormerFiltersAreKept(t *testing.T) {
	testutil.NeedRoot(t)
	ns, folder := bench(t, "1"), testutil.BPFFS(t)
	run(t, ns, "tc", "qdisc add dev a root handle 1: htb")
	foreign := newTrail(t).program(t, 9)
	must(t, foreign.Pin(folder+"/foreign"))
	must(t, foreign.Close())
	run(t, ns, "tc", "filter add dev a parent 1: prio 5 bpf da object-pinned "+folder+"/foreign")
	must(t, os.Remove(folder+"/foreign"))
	before := show(t, ns)
	if _, err := device.Take(ns, "a", "test", ""); fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), "would be lost") {
		t.Errorf("taken without a place for the program: %v", err)
	}
	record, err := device.Take(ns, "a", "test", folder+"/kept")
	must(t, err)
	must(t, record.Replace(ns, ours()))
	must(t, record.Restore(ns))
	if after := show(t, ns); after != before || !strings.Contains(before, "direct-action") {
		t.Errorf("restored is\n%s\nwant\n%s", after, before)
	}
	if left, err := os.ReadDir(folder + "/kept"); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// killed runs the child until its n-th step and reports whether it ended before.
func killed(t *testing.T, ns *netns.Namespace, record device.Record, work string, step int) (ended bool) {
	t.Helper()
	document, err := json.Marshal(record)
	must(t, err)
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), "WEIR_TEST_DEVICE="+work, "WEIR_TEST_NAMESPACE="+ns.Name, "WEIR_TEST_RECORD="+string(document),
		fmt.Sprint("WEIR_TEST_STEP=", step))
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Exited() {
		return false
	}
	if err != nil {
		t.Fatalf("%s to step %d: %v: %s", work, step, err, out)
	}
	return true
}

// After a kill before any step of replacing or restoring, another process restores the tree.
func TestKilledAtAnyStepTheFormerTreeComesBack(t *testing.T) {
	testutil.NeedRoot(t)
	need(t, "u32")
	for _, work := range []string{"replace", "restore"} {
		t.Run(work, func(t *testing.T) {
			ns := bench(t, "1")
			for line := range strings.Lines(former) {
				run(t, ns, "tc", line)
			}
			before := show(t, ns)
			record, err := device.Take(ns, "a", "test", "")
			must(t, err)
			for step := 0; ; step++ {
				if work == "restore" {
					must(t, record.Replace(ns, ours()))
				}
				ended := killed(t, ns, record, work, step)
				must(t, record.Restore(ns))
				if after := show(t, ns); after != before {
					t.Fatalf("killed before step %d, restored is\n%s\nwant\n%s", step, after, before)
				}
				if ended {
					if step < 5 {
						t.Errorf("it took %d steps", step)
					}
					break
				}
			}
		})
	}
}

func TestADeviceHasOneOwner(t *testing.T) {
	testutil.NeedRoot(t)
	ns := bench(t, "1")
	record, err := device.Take(ns, "a", "limit", "")
	must(t, err)
	if err := record.Replace(ns, device.Tree{}); fault.Of(err) != fault.Usage {
		t.Errorf("replaced by a tree without the mark: %v", err)
	}
	must(t, record.Replace(ns, ours()))
	if _, err := device.Take(ns, "a", "class", ""); err == nil || !strings.Contains(err.Error(), "has a tree of Weir's already") {
		t.Errorf("taken with a tree of Weir's on it: %v", err)
	}
	run(t, ns, "tc", "qdisc replace dev a root handle 5: pfifo limit 5")
	if err := record.Restore(ns); err == nil || !strings.Contains(err.Error(), "somebody else has put pfifo 5:") {
		t.Errorf("restored over what somebody else has put there: %v", err)
	}
	run(t, ns, "tc", "qdisc del dev a root")
	must(t, record.Restore(ns))
	again, err := device.Take(ns, "a", "class", "")
	must(t, err)
	must(t, again.Restore(ns))
}

func TestWrongTreesChangeNothing(t *testing.T) {
	testutil.NeedRoot(t)
	ns := bench(t, "1")
	run(t, ns, "tc", "qdisc add dev a root handle 1: pfifo limit 77")
	before := show(t, ns)
	record, err := device.Take(ns, "a", "test", "")
	must(t, err)
	lost, leaf := ours(), ours()
	lost.Classes[1].Parent = device.RootHandle | 0x99 // htb replaces it by the root
	leaf.Qdiscs[1].Parent = device.RootHandle | 0x99
	for what, wrong := range map[string]device.Tree{"class": lost, "leaf": leaf} {
		if err := record.Replace(ns, wrong); err == nil || !strings.Contains(err.Error(), "rehearse") {
			t.Errorf("a %s without a parent: %v", what, err)
		}
	}
	if after := show(t, ns); after != before {
		t.Errorf("it changed\n%s\nto\n%s", before, after)
	}
	must(t, record.Restore(ns))
}

// A renamed device is the same. A removed device is gone, even if another one has its name.
func TestDevicesThatChange(t *testing.T) {
	testutil.NeedRoot(t)
	ns := bench(t, "1")
	record, err := device.Take(ns, "a", "test", "")
	must(t, err)
	must(t, record.Replace(ns, ours()))
	run(t, ns, "ip", "link set dev a down")
	run(t, ns, "ip", "link set dev a name c")
	must(t, record.Restore(ns))
	if got := run(t, ns, "tc", "qdisc show dev c"); strings.Contains(got, "77e1") {
		t.Errorf("the renamed device has %s", got)
	}
	if record, err = device.Take(ns, "c", "test", ""); err != nil {
		t.Fatal(err)
	}
	must(t, record.Replace(ns, ours()))
	other := testutil.Namespace(t, "other")
	run(t, ns, "ip", "link set dev c netns "+other.Name)
	if err := record.Restore(ns); !errors.Is(err, device.ErrGone) {
		t.Errorf("moved to another namespace: %v", err)
	}
	if got := run(t, other, "tc", "qdisc show dev c"); strings.Contains(got, "77e1") {
		t.Errorf("in its new namespace it has %s", got)
	}
	if err := record.Restore(other); !errors.Is(err, device.ErrGone) {
		t.Errorf("asked for in its new namespace: %v", err)
	}
	run(t, ns, "ip", "link add name c type veth peer name d")
	if err := record.Restore(ns); !errors.Is(err, device.ErrGone) || !strings.Contains(err.Error(), "another one has its name") {
		t.Errorf("another device with its name: %v", err)
	}
	if _, err := device.Take(ns, "nothing", "test", ""); !errors.Is(err, device.ErrGone) {
		t.Errorf("a device that never was: %v", err)
	}
}
