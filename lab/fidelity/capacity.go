// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/lab/link"
	"weir/lab/link/loss"
)

const (
	// capacityTime is the duration of the TCP trial of a link.
	capacityTime = time.Second
	// capacityTrips are round trips more, for slow start; the rate counts over the best
	// capacityWindow.
	capacityTrips  = 40
	capacityWindow = 250 * time.Millisecond
	// capacityShare of the rate must arrive as TCP payload. Frames of 1500 bytes allow 94.1 %.
	capacityShare = 0.8
	capacityNames = "weir-capacity-"
)

// Capable is the measured capacity of a machine.
type Capable struct {
	Rate   units.BitRate // the highest requested rate that held; 0 if none
	Failed []string      // for each higher rate, why it did not hold
}

// Explain is the error for a rate that this machine does not carry.
func (c Capable) Explain(asked units.BitRate) error {
	if c.Rate == 0 {
		return fault.New(fault.Testbed, "stop other work on this machine, or use one with more CPUs",
			"%s cannot be carried, and none of the lower rates that were tried", asked)
	}
	return fault.New(fault.Testbed, fmt.Sprintf("set the rate to %s or less", c.Rate),
		"%s cannot be carried; this machine carries about %s", asked, c.Rate)
}

// Capacity tries the rates, highest first, on a link of its own between two hosts of its own: it
// must calibrate, and a TCP transfer over it must pass the watch. asked is the link apart from its
// rate; its loss is left out, since TCP would not fill the link. A rate takes about two seconds.
// Its namespaces are gone when it returns.
func Capacity(ctx context.Context, carrier link.Carrier, asked link.Direction, rates []units.BitRate) (Capable, error) {
	var result Capable
	highestFirst := slices.Clone(rates)
	slices.SortFunc(highestFirst, func(a, b units.BitRate) int { return int(min(1, max(-1, int64(b)-int64(a)))) })
	for _, rate := range highestFirst {
		d := asked
		d.Rate, d.Loss, d.Duplicate, d.Corrupt, d.Reorder = rate, loss.Loss{}, 0, 0, 0
		reasons, err := try(ctx, carrier, d)
		switch {
		case err != nil:
			return result, fmt.Errorf("measure the machine's capacity: %w", err)
		case len(reasons) == 0:
			result.Rate = rate
			return result, nil
		}
		result.Failed = append(result.Failed, fmt.Sprintf("%s: %s", rate, reasons[0]))
	}
	return result, nil
}

// try returns why a link cannot be emulated, or nil.
func try(ctx context.Context, carrier link.Carrier, d link.Direction) (reasons []string, err error) {
	trial, err := newTrial()
	defer func() { err = errors.Join(err, trial.close()) }()
	if err != nil {
		return nil, err
	}
	carrying, err := carrier.Carry(ctx, trial.spaces[carrierSpace], []link.Cable{{Name: "trial", A: "a", B: "b", Forward: d, Reverse: d}})
	if fault.Of(err) == fault.Testbed {
		return []string{err.Error()}, nil // too much memory, for one
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, carrying.Close()) }()
	ends := []Endpoint{{trial.spaces[0], "host"}, {trial.spaces[1], "host"}}
	calibration, err := Calibrate(ctx, Link{Name: "trial", A: ends[0], B: ends[1], Forward: d, Reverse: d})
	if err != nil || !calibration.OK() {
		return calibration.Problems, err
	}
	watch, err := NewWatch(carrying, ends, DefaultLimits(d.Delay))
	if err != nil {
		return nil, err
	}
	goodput, err := trial.transfer(ctx, capacityTime+capacityTrips*2*d.Delay)
	if err != nil {
		return nil, err
	}
	judgement, err := watch.Finish()
	if err != nil {
		return nil, err
	}
	if least := capacityShare * float64(d.Rate); goodput < least {
		judgement.reject("TCP got %s through it", units.BitRate(goodput))
	}
	return judgement.Reasons, nil
}

// trial is a lab of two hosts and a carrier's namespace.
type trial struct {
	spaces []*netns.Namespace // host A, host B, carrier
}

const carrierSpace = 2

func newTrial() (*trial, error) {
	t := &trial{}
	prefix := fmt.Sprintf("%s%d-%04x-", capacityNames, os.Getpid(), rand.Uint32()&0xffff)
	for _, name := range []string{"a", "b", "link"} {
		ns, err := netns.Create(prefix + name)
		if err != nil {
			return t, err
		}
		t.spaces = append(t.spaces, ns)
	}
	conn, err := rtnl.Open(t.spaces[carrierSpace])
	if err != nil {
		return t, err
	}
	defer conn.Close()
	for i, end := range []string{"a", "b"} {
		if err := t.join(conn, end, t.spaces[i], address(i)); err != nil {
			return t, err
		}
	}
	return t, nil
}

func address(host int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, byte(host + 1)}) }

func (t *trial) join(carrier *rtnl.Conn, end string, ns *netns.Namespace, a netip.Addr) error {
	if err := carrier.AddVeth(end, ns, "host", 0); err != nil {
		return err
	}
	if err := carrier.SetUp(end); err != nil {
		return err
	}
	host, err := rtnl.Open(ns)
	if err != nil {
		return err
	}
	defer host.Close()
	if err := host.SetUp("host"); err != nil {
		return err
	}
	if err := host.AddAddress("host", netip.PrefixFrom(a, 24)); err != nil {
		return err
	}
	if err := link.Prepare(ns, "host"); err != nil {
		return err
	}
	return link.Thread(ns, "host")
}

func (t *trial) close() error {
	var failures []error
	for _, ns := range t.spaces {
		failures = append(failures, ns.Close(), netns.Remove(ns.Name))
	}
	return errors.Join(failures...)
}

// transfer sends TCP from host A to host B for a time and returns the payload's rate at the
// receiver, in bit/s.
func (t *trial) transfer(ctx context.Context, length time.Duration) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, length+10*time.Second)
	defer cancel()
	var listener net.Listener
	err = t.spaces[1].Do(func() (err error) {
		listener, err = net.Listen("tcp4", netip.AddrPortFrom(address(1), 0).String())
		return err
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	var conn net.Conn
	err = t.spaces[0].Do(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp4", listener.Addr().String())
		return err
	})
	if err != nil {
		return 0, err
	}
	var sender sync.WaitGroup
	defer sender.Wait()
	defer func() { _ = conn.Close() }()
	receiver, err := listener.Accept()
	if err != nil {
		return 0, err
	}
	defer func() { _ = receiver.Close() }()
	sender.Go(func() {
		for block := make([]byte, 1<<17); ; {
			if _, err := conn.Write(block); err != nil {
				return
			}
		}
	})
	stop := context.AfterFunc(ctx, func() { _ = receiver.Close() })
	defer stop()
	return receive(receiver, length)
}

// receive returns the best rate over capacityWindow within a time: slow start takes long where the
// delay is long.
func receive(from net.Conn, length time.Duration) (rate float64, err error) {
	buffer := make([]byte, 1<<18)
	begin := time.Now()
	var arrivals []arrival
	for octets := 0; ; {
		n, err := from.Read(buffer)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		octets += n
		now := time.Since(begin)
		arrivals = append(arrivals, arrival{now, octets})
		if now >= length || err != nil {
			return bestRate(arrivals, capacityWindow), nil
		}
	}
}

// arrival is the number of bytes received at a time.
type arrival struct {
	at     time.Duration
	octets int
}

// bestRate is the highest rate, in bit/s, between two arrivals that are a window or more apart;
// that of all if none are.
func bestRate(all []arrival, window time.Duration) (best float64) {
	if len(all) < 2 {
		return 0
	}
	first := 0
	for i := range all {
		for first < i && all[i].at-all[first+1].at >= window {
			first++
		}
		if span := all[i].at - all[first].at; span >= window || i == len(all)-1 && best == 0 {
			best = max(best, float64(all[i].octets-all[first].octets)*8/max(span, 1).Seconds())
		}
	}
	return best
}
