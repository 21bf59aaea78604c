// SPDX-License-Identifier: Apache-2.0

package police

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/fault"
	"weir/kernel/clock"
	"weir/kernel/testutil"
)

func TestPinnedLimitsOutliveTheirProcess(t *testing.T) {
	dir := pins(t)
	client, server, address := path(t)
	sink := udpSink(t, server, address)
	p, process := limited(t, slow(4, 50, 60), slow(4, 20, 30))
	if err := p.Pin(dir); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if in, err := Attached(dir); err != nil || !in {
		t.Fatalf("attached: %t, %v", in, err)
	}
	work, began := task{Namespace: client.Name, Network: "udp", Address: sink, Messages: 200, Size: payload4}, time.Now()
	if err := json.NewEncoder(process.In).Encode(work); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	again, err := LoadPinned(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if c := counters(t, again, 1); c.Packets < 32 || c.Packets > 32+drained(began) || c.Packets+c.Dropped != 200 {
		t.Errorf("admitted %d and refused %d without the process, want 32 and 168", c.Packets, c.Dropped)
	}
	if err := Unpin(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadPinned(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after unpinning: %v, want that nothing is pinned", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// Without a bpf file system the error advises to mount one.
func TestPinsNeedABPFFileSystem(t *testing.T) {
	p := plane(t, 1)
	above := t.TempDir()
	for _, dir := range []string{filepath.Join(above, "weir", "limit"), "/sys/kernel/weir/limit"} {
		err := p.Pin(dir)
		if fault.Of(err) != fault.Testbed || fault.Advice(err) != "mount one: mount -t bpf -o mode=700 bpf /sys/fs/bpf" {
			t.Errorf("%s: %v; try %q", dir, err, fault.Advice(err))
		}
	}
	if left, err := os.ReadDir(above); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Pinned limits of another Weir version are rejected with advice, and can be released.
func TestLimitsOfAnotherVersionCanOnlyBeReleased(t *testing.T) {
	for name, change := range map[string]func(pin string) error{
		"a map that it did not have": os.Remove,
		"values of another size": func(pin string) error {
			other, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 2})
			if err != nil {
				return err
			}
			defer func() { _ = other.Close() }()
			return errors.Join(os.Remove(pin), other.Pin(pin))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := pins(t)
			p, _ := limited(t, slow(4, 50, 60), slow(4, 20, 30))
			if err := errors.Join(p.Pin(dir), change(filepath.Join(dir, "shares"))); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadPinned(dir); !errors.Is(err, ErrOtherVersion) || !strings.Contains(fault.Advice(err), "weir release") {
				t.Errorf("%v (%s), want that it is of another version and how to end it", err, fault.Advice(err))
			}
			old, err := LoadForRelease(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(old.Close(), Unpin(dir)); err != nil {
				t.Error(err)
			}
			if _, err := LoadForRelease(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after its release %v, want that nothing is pinned", err)
			}
		})
	}
}

// A pin that another process removes during the reading of the folder counts as missing. A dangling
// link simulates it.
func TestAPinThatHasJustGoneIsNoError(t *testing.T) {
	dir := pins(t)
	p, _ := limited(t, slow(4, 50, 60), slow(4, 20, 30))
	if err := errors.Join(p.Pin(dir), os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "link-9"))); err != nil {
		t.Fatal(err)
	}
	if in, err := Attached(dir); err != nil || !in {
		t.Errorf("attached: %t, %v; want all that is needed to be", in, err)
	}
	if again, err := LoadPinned(dir); err != nil {
		t.Error(err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Rename(filepath.Join(dir, "link-9"), filepath.Join(dir, linkPin(1))); err != nil {
		t.Fatal(err)
	}
	if in, err := Attached(dir); err != nil || in {
		t.Errorf("with one gone: attached %t, %v", in, err)
	}
}

func TestOpenSocketsAreAdoptedAndSetFree(t *testing.T) {
	dir := pins(t)
	client, server, address := path(t)
	outer, inner := nested(t)
	listener := echo(t, server, address)

	process, answers := talker(t, inner, client, listener)
	rate := func() (rate uint32) {
		t.Helper()
		if !answers.Scan() {
			t.Fatal("the talker has ended")
		}
		if _, err := fmt.Sscan(answers.Text(), &rate); err != nil {
			t.Fatal(err)
		}
		return rate
	}
	// exchange returns the socket's pacing rate after it has carried some data.
	exchange := func() uint32 {
		t.Helper()
		if _, err := fmt.Fprintln(process.In); err != nil {
			t.Fatal(err)
		}
		return rate()
	}
	const unlimited = 1<<32 - 1
	if got := rate(); got != unlimited {
		t.Fatalf("the new socket has a pacing rate of %d", got)
	}

	p, err := Load(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if p.objects.LimitAdopt == nil {
		testutil.Need(t, "tracing", ErrNoIterator)
	}
	id, err := inner.ID()
	if err != nil {
		t.Fatal(err)
	}
	const limit = 100_000_000
	if err := errors.Join(p.AssignCgroup(id, 0), p.Set(0, Egress, Limit{Rate: limit}), p.Attach(outer.Path), p.Pin(dir)); err != nil {
		t.Fatal(err)
	}
	if got := exchange(); got != unlimited {
		t.Fatalf("paced at %d without having been adopted: the test shows nothing", got)
	}
	if err := p.Adopt(client); err != nil {
		t.Fatal(err)
	}
	// A fair rate may pass the limit by a quarter, since a flow does not use all that it may.
	const most = limit / 8 * 5 / 4
	if got := exchange(); got == unlimited || got > most {
		t.Errorf("adopted socket paced at %d octet/s, want at most %d", got, most)
	}
	// A callback may read the limit before a release clears its state, and the state after that.
	var state limitLimitState
	cleared := uint32(0)
	if err := p.objects.LimitStates.Lookup(cleared, &state); err != nil {
		t.Fatal(err)
	}
	state.FairRate, state.IntervalStartNs = 0, uint64(clock.Now()+int64(time.Hour))
	if err := p.objects.LimitStates.Put(cleared, &state); err != nil {
		t.Fatal(err)
	}
	if got := exchange(); got == 0 {
		t.Error("a limit without a fair rate stops its senders")
	}
	if err := Detach(dir); err != nil {
		t.Fatal(err)
	}
	_ = p.closeLinks()
	if err := p.Free(client); err != nil {
		t.Fatal(err)
	}
	if got := exchange(); got != unlimited {
		t.Errorf("freed socket is paced at %d octet/s", got)
	}
	if err := Unpin(dir); err != nil {
		t.Fatal(err)
	}
}

// A release frees sockets after all programs have ended, so Detach must end them at once.
func TestDetachEndsAttachmentsAtOnce(t *testing.T) {
	dir := pins(t)
	for range 8 {
		p, outer, _ := innerScope(t)
		if err := errors.Join(p.Set(0, Egress, Limit{Rate: MaxRate}), p.Attach(outer.Path), p.Pin(dir), p.closeLinks(), Detach(dir)); err != nil {
			t.Fatal(err)
		}
		if got := testutil.CountPrograms(t, outer.Path); got != [3]int{} {
			t.Errorf("%v programs are attached after their end", got)
		}
		if err := Unpin(dir); err != nil {
			t.Fatal(err)
		}
	}
}
