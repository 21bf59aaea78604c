// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/internal/listen"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// attempt is the input of the child process "lesser": folders, and its only capabilities.
type attempt struct {
	State, Pins, Root string
	Rights            []int
}

// result is the error of one call.
type result struct {
	Error, Try string
	Status     fault.Status
}

// lesserPart calls all methods of an engine as another user, with a.Rights as only capabilities.
func lesserPart(in io.Reader, out io.Writer) error {
	var a attempt
	if err := json.NewDecoder(in).Decode(&a); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := testutil.Become(4711, a.Rights); err != nil {
		return err
	}
	e := engineAt(a.State, a.Pins, a.Root)
	results := map[string]result{}
	for _, try := range []struct {
		name string
		do   func() error
	}{
		{"status", func() error { _, err := e.Status(); return err }},
		{"apply", func() error { _, err := e.Apply(of(limited("a", 2e6))); return err }},
		{"follow", func() error {
			p, err := AcquireLease(a.State, "policy.yaml")
			if err != nil {
				return err
			}
			return errors.Join(p.Announce(), p.Release())
		}},
		{"release", func() error { _, err := e.Release(); return err }},
	} {
		if err := try.do(); err != nil {
			results[try.name] = result{err.Error(), fault.Advice(err), fault.Of(err)}
		}
	}
	return json.NewEncoder(out).Encode(results)
}

// The capabilities for BPF do not suffice to open files of root. Those in the advice do.
func TestCapabilitiesForFilesOfRoot(t *testing.T) {
	testutil.NeedRoot(t)
	bpf := []int{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}
	for _, test := range []struct {
		name   string
		rights []int
		fails  bool
	}{
		{"rights to BPF", bpf, true},
		{"the advice's", append([]int{unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER}, bpf...), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := setup(t)
			testutil.Mkdir(t, e.CgroupRoot, "a")
			apply(t, e, limited("a", 1e6))
			// A daemon of root has left its lease.
			p, err := AcquireLease(e.StateDir, "policy.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(p.Announce(), p.Release(), os.Chmod(filepath.Dir(e.StateDir), 0o755)); err != nil {
				t.Fatal(err)
			}
			process, err := child.Start(t.Context(), "lesser", os.Stderr)
			if err != nil {
				t.Fatal(err)
			}
			var results map[string]result
			if err := errors.Join(json.NewEncoder(process.In).Encode(attempt{e.StateDir, e.PinDir, e.CgroupRoot, test.rights}),
				json.NewDecoder(process.Out).Decode(&results), process.Wait()); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"status", "apply", "follow", "release"} {
				got, failed := results[name]
				if failed != test.fails || failed && (got.Status != fault.Permission || got.Try != forFiles) {
					t.Errorf("%s: %+v", name, got)
				}
			}
		})
	}
}

// If the state file is readable and the pins are not, the result is a permission error, not
// "nothing is attached".
func TestUnreadablePinsAreAnError(t *testing.T) {
	testutil.NeedRoot(t)
	e := setup(t)
	apply(t, e, limited("a", 1e6))
	have, err := e.store().read(current)
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		in  bool
		err error
	}
	asked := make(chan answer)
	go func() {
		runtime.LockOSThread() // the thread ends with its goroutine
		if err := testutil.Become(4711, []int{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}); err != nil {
			asked <- answer{true, err}
			return
		}
		in, err := e.inPlace(have)
		asked <- answer{in, err}
	}()
	if got := <-asked; got.in || fault.Of(got.err) != fault.Permission || !strings.Contains(fault.Advice(got.err), "CAP_DAC_OVERRIDE") {
		t.Errorf("attached: %t, %v", got.in, got.err)
	}
}

func TestASocketInAMissingFolderIsAnError(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "missing", "api.sock"), "/proc/version/api.sock"} {
		if _, err := listen.Unix("unix", path); fault.Of(err) != fault.Usage || !strings.Contains(fault.Advice(err), "--socket") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Restoring the pacing of connections needs the right to enter their network namespaces.
func TestCapabilitiesForOtherNamespaces(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Namespace(t, "other") // perhaps the only one
	try := func(rights ...int) error {
		failed := make(chan error)
		go func() {
			runtime.LockOSThread() // the thread ends with its goroutine
			if err := testutil.Become(4711, rights); err != nil {
				failed <- err
				return
			}
			failed <- everywhere(func(ns *netns.Namespace) error { return ns.Do(func() error { return nil }) })
		}()
		return <-failed
	}
	if err := try(unix.CAP_SYS_PTRACE); fault.Of(err) != fault.Permission || fault.Advice(err) != forNamespaces {
		t.Errorf("%v; try %q", err, fault.Advice(err))
	}
	if err := try(unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE); err != nil {
		t.Errorf("with the capabilities of the advice: %v", err)
	}
}
