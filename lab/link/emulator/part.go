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

	"weir/kernel/clock"
	"weir/kernel/netns"
	"weir/lab/link"
)

// PartName is the name under which main and TestMain register [Part] with child.Main.
const PartName = "emulator"

// memoryLimit bounds the child's heap: without garbage collection it grows by some KB per status,
// and is collected only near the limit.
const memoryLimit = 1 << 30

const openAtOnce = 8 // cables

// Part is the child process of the emulator. It ends with its input; at its end the kernel detaches
// programs and sockets.
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
		var answer report
		switch next.Do {
		case "status", "begin":
			answer = w.report(next.Do == "begin")
		case "capture":
			answer = w.capture(next)
		case "depths":
			answer = w.depths()
		default:
			return nil
		}
		if err := reports.Encode(answer); err != nil {
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
	// Each thread of a cable finds a free scheduler slot when it wakes, and control has one too.
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

// open opens the cables concurrently: most of the time is spent in grace periods of the kernel.
func (w *workers) open(o order) error {
	w.cables, w.ends = make([]*cable, len(o.Cables)), make([][2]string, len(o.Cables))
	var group errgroup.Group
	group.SetLimit(openAtOnce)
	for i, each := range o.Cables {
		group.Go(func() (err error) {
			w.ends[i] = [2]string{each.A, each.B}
			w.cables[i], err = openCable(w.ns, each, time.Duration(o.Spin))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var err error
	w.before, err = w.drops()
	return err
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

// drops reads the losses of the devices of all cables.
func (w *workers) drops() (all [][2]link.Drops, err error) {
	var devices []string
	for _, ends := range w.ends {
		devices = append(devices, ends[0], ends[1])
	}
	drops, err := link.ReadAllDrops(w.ns, devices)
	if err != nil {
		return nil, err
	}
	for i := range w.ends {
		all = append(all, [2]link.Drops{drops[2*i], drops[2*i+1]})
	}
	return all, nil
}

// depths reads the queues' lengths over time.
func (w *workers) depths() (r report) {
	now := clock.Now()
	for _, c := range w.cables {
		r.Depths = append(r.Depths, [2][]uint32{c.ways[0].depth.read(now), c.ways[1].depth.read(now)})
	}
	return r
}

// capture begins the packet traces.
func (w *workers) capture(o order) report {
	for _, c := range w.cables {
		if err := c.capture(o.Folder, o.Octets, len(w.cables)); err != nil {
			return report{Error: err.Error()}
		}
	}
	return report{}
}

// report reads every cable; forget resets maxima.
func (w *workers) report(forget bool) report {
	var r report
	for _, c := range w.cables {
		status, err := c.status(forget)
		if err != nil {
			return report{Error: err.Error()}
		}
		r.Status = append(r.Status, status)
	}
	drops, err := w.drops()
	if err != nil {
		return report{Error: err.Error()}
	}
	for i := range r.Status {
		addOverruns(&r.Status[i], w.before[i], drops[i])
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return report{Error: fmt.Sprintf("read CPU times: %v", err)}
	}
	r.CPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return r
}

// addOverruns adds device losses: frames that did not enter the sending side's socket, and frames
// that the receiving side's veth rejected.
func addOverruns(s *link.Status, before, now [2]link.Drops) {
	lost := func(in, out int) uint64 {
		return now[in].Receive + now[in].XDP - before[in].Receive - before[in].XDP + now[out].Transmit - before[out].Transmit
	}
	s.Forward.Overruns += lost(0, 1)
	s.Reverse.Overruns += lost(1, 0)
}
