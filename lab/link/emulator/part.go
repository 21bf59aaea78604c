// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"weir/internal/kernel/netns"
	"weir/lab/link"
)

// PartName is the name under which main and TestMain register [Part] with child.Main.
const PartName = "emulator"

// memoryLimit bounds the child's heap: without garbage collection it grows by some KB with each
// status, and is collected only when it comes near the limit.
const memoryLimit = 1 << 30

const openAtOnce = 8 // cables

// Part is the emulator's child process. It ends with its input, and whatever happens to it, the
// kernel detaches its programs and sockets.
func Part(in io.Reader, out io.Writer) error {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryLimit)
	raisePriority()
	orders, reports := json.NewDecoder(in), json.NewEncoder(out)
	var first order
	if err := orders.Decode(&first); err != nil {
		return fmt.Errorf("read start order: %w", err)
	}
	w, err := start(first)
	if err != nil {
		return reports.Encode(report{Error: err.Error()})
	}
	defer w.stop()
	if err := reports.Encode(report{}); err != nil {
		return err
	}
	for {
		var next order
		if err := orders.Decode(&next); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read order: %w", err)
		}
		if next.Do != "status" && next.Do != "begin" {
			return nil
		}
		if err := reports.Encode(w.report(next.Do == "begin")); err != nil {
			return err
		}
	}
}

// workers are the running cables of one child.
type workers struct {
	ns     *netns.Namespace
	cables []*cable
	ends   [][2]string
	before [][2]link.Drops
	done   sync.WaitGroup
}

func start(o order) (*workers, error) {
	ns, err := netns.Open(o.Namespace)
	if err != nil {
		return nil, err
	}
	w := &workers{ns: ns}
	// Every cable's thread finds a processor of the scheduler free when it wakes, and control has
	// one left.
	runtime.GOMAXPROCS(max(runtime.NumCPU(), len(o.Cables)+2))
	if err := w.open(o); err != nil {
		w.close()
		return nil, err
	}
	for _, c := range w.cables {
		w.done.Go(c.run)
	}
	return w, nil
}

// open opens the cables side by side: most of the time goes into the kernel's waiting for its own
// grace periods.
func (w *workers) open(o order) error {
	w.cables, w.ends = make([]*cable, len(o.Cables)), make([][2]string, len(o.Cables))
	w.before = make([][2]link.Drops, len(o.Cables))
	var group errgroup.Group
	group.SetLimit(openAtOnce)
	for i, each := range o.Cables {
		group.Go(func() (err error) {
			w.ends[i] = [2]string{each.A, each.B}
			if w.cables[i], err = openCable(w.ns, each, time.Duration(o.Spin)); err != nil {
				return err
			}
			w.before[i], err = w.drops(w.ends[i])
			return err
		})
	}
	return group.Wait()
}

func (w *workers) stop() {
	for _, c := range w.cables {
		c.end()
	}
	w.done.Wait()
	w.close()
}

func (w *workers) close() {
	var group errgroup.Group
	group.SetLimit(openAtOnce)
	for _, c := range w.cables {
		if c != nil {
			group.Go(func() error { c.close(); return nil })
		}
	}
	_ = group.Wait()
	_ = w.ns.Close()
}

func (w *workers) drops(ends [2]string) (drops [2]link.Drops, err error) {
	for i, dev := range ends {
		if drops[i], err = link.ReadDrops(w.ns, dev); err != nil {
			return drops, err
		}
	}
	return drops, nil
}

// report reads every cable; forget starts a new span for what is no sum.
func (w *workers) report(forget bool) report {
	var r report
	for i, c := range w.cables {
		status, err := c.status(forget)
		if err == nil {
			err = w.addOverruns(i, &status)
		}
		if err != nil {
			return report{Error: err.Error()}
		}
		r.Status = append(r.Status, status)
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return report{Error: fmt.Sprintf("read processor time: %v", err)}
	}
	r.CPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return r
}

// addOverruns adds what the devices lost: frames that did not get into the sending side's socket,
// and frames that the receiving side's veth did not take.
func (w *workers) addOverruns(i int, s *link.Status) error {
	now, err := w.drops(w.ends[i])
	if err != nil {
		return err
	}
	lost := func(in, out int) uint64 {
		before := w.before[i]
		return now[in].Receive + now[in].XDP - before[in].Receive - before[in].XDP + now[out].Transmit - before[out].Transmit
	}
	s.Forward.Overruns += lost(0, 1)
	s.Reverse.Overruns += lost(1, 0)
	return nil
}
