// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/fault"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

func TestWrongNamesAreFaults(t *testing.T) {
	for _, test := range []struct{ description, algorithm, name string }{
		{"an unknown algorithm", "dctpc", ""},
		{"a name too long", "dctcp", "weir_data_center"},
		{"a name with a blank", "dctcp", "weir dctcp"},
		{"a name that is taken", "dctcp", "reno"},
	} {
		t.Run(test.description, func(t *testing.T) {
			_, err := Install(test.algorithm, Options{Name: test.name})
			if fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
				t.Errorf("%v, status %d, advice %q", err, fault.Of(err), fault.Advice(err))
			}
		})
	}
}

func TestTakenByAnotherInstall(t *testing.T) {
	first := install(t, Options{})
	if _, err := Install("dctcp", Options{Name: first.Name()}); fault.Of(err) != fault.Usage {
		t.Errorf("installed twice: %v", err)
	}
	if err := first.Attach("/sys/fs/cgroup/weirtest-never-made"); fault.Of(err) != fault.Usage {
		t.Errorf("attached to a cgroup that is not there: %v", err)
	}
	if _, err := Follow[Event](first); err == nil {
		t.Error("traced without tracing")
	}
}

func TestListTellsWhoMayChoose(t *testing.T) {
	for _, unrestricted := range []bool{false, true} {
		installed := install(t, Options{Unrestricted: unrestricted})
		controls, err := List(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(controls, func(c Control) bool { return c.Name == installed.Name() })
		if at < 0 || controls[at].Restricted == unrestricted || controls[at].Pin != "" {
			t.Errorf("unrestricted %t is listed as %+v", unrestricted, controls)
		}
	}
}

func TestPinnedUntilRemoved(t *testing.T) {
	installed, mounted := install(t, Options{}), testutil.BPFFS(t)
	group, _, _ := inCgroup(t)
	if err := installed.Attach(group.Path); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(mounted, "weir", "cc")
	if err := installed.Pin(dir); err != nil {
		t.Fatal(err)
	}
	if err := installed.Close(); err != nil {
		t.Fatal(err)
	}
	controls, err := List(dir)
	at := slices.IndexFunc(controls, func(c Control) bool { return c.Name == installed.Name() })
	if err != nil || at < 0 || controls[at].Pin != filepath.Join(dir, installed.Name()) || controls[at].Scopes != 1 || *controls[at].Counts != (Counts{}) {
		t.Fatalf("pinned, closed and listed as %+v, %v", controls, err)
	}
	if err := Remove(dir, installed.Name()); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(offered(t), installed.Name()) {
		t.Error("removed, and still offered")
	}
	if left, _ := filepath.Glob(filepath.Join(mounted, "weir*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if err := Remove(dir, installed.Name()); fault.Of(err) != fault.Usage {
		t.Errorf("removed twice: %v", err)
	}
}

func TestAPinThatFailsLeavesNothing(t *testing.T) {
	installed, dir := install(t, Options{}), t.TempDir() // not a BPF file system
	if err := installed.Pin(dir); err == nil || fault.Advice(err) == "" {
		t.Errorf("pinned to a folder that is no BPF file system: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestDecodeEventRefusesWhatIsTooShort(t *testing.T) {
	if _, err := decodeEvent(make([]byte, 47)); err == nil {
		t.Error("decoded")
	}
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add(make([]byte, 56))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, sample []byte) {
		event, err := decodeEvent(sample)
		if err != nil && event != (Event{}) {
			t.Errorf("%v with an error", event)
		}
	})
}

// TestAControlWithoutECN is one that the table would list: its sockets, and the connections of its
// cgroups, ask for none.
func TestAControlWithoutECN(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "struct_ops", probe.ProgramType(ebpf.StructOps))
	kind := dctcp()
	kind.needsECN = false
	name := fmt.Sprintf("wt%d_plain", os.Getpid())
	control, err := register(kind, Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	p := newPath(t)
	group, send, answer := inCgroup(t)
	if err := control.Attach(group.Path); err != nil {
		t.Fatal(err)
	}
	send(task{Namespace: p.client.Name, Address: p.listen(t, "").Addr().String()})
	_ = answer() // without ECN, DCTCP's program goes on as it can from within the assignment
	sender, _ := p.connect(t, name, "")
	_ = sender.Close()
	segments, err := p.wire.Segments()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range segments {
		if s.SYN && s.Capable {
			t.Error("a SYN is ECN-capable")
		}
	}
	if counts, err := control.Counts(); err != nil || counts != (Counts{Assigned: 1}) {
		t.Errorf("counted %+v, %v", counts, err)
	}
	if err := errors.Join(control.Close(), waitGone(name, unregisterTime)); err != nil {
		t.Error(err)
	}
}

func TestATraceHasItsType(t *testing.T) {
	control := install(t, Options{Trace: true})
	if _, err := Follow[Counts](control); err == nil {
		t.Error("DCTCP's steps were followed as something else")
	}
}
