// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"

	"weir/internal/fault"
	"weir/internal/units"
)

// Data returns the sender and the receiver of the flow's data. For a flow of requests and
// responses, they are those of the larger message.
func (f Flow) Data() (from, to string) {
	if f.Kind == Request && f.Response >= f.Request {
		return f.To, f.From
	}
	return f.From, f.To
}

// IP returns the IP version of the flow.
func (f Flow) IP() int {
	if f.Family == 0 {
		return 4
	}
	return f.Family
}

// Header sizes in bytes without Ethernet's; TCP has timestamps on.
const (
	ip4Header = 20
	ip6Header = 40
	udpHeader = 8
	tcpHeader = 32
)

// Headers is the size of the IP and transport headers of a full packet of the flow, in bytes.
func (f Flow) Headers() int {
	ip, transport := ip4Header, tcpHeader
	if f.IP() == 6 {
		ip = ip6Header
	}
	if f.Kind == Datagram {
		transport = udpHeader
	}
	return ip + transport
}

// MinPayload is the minimum payload of a datagram, in bytes: its stamp.
const MinPayload = 24

// maxPacket is the maximum of either version's length field, in bytes. IPv6 does not count its own
// header there, but no link carries more.
const maxPacket = 65535

// Validate rejects a flow that no generator could run. The error carries fault.Usage.
func (f Flow) Validate() error {
	err := f.validate()
	if err != nil {
		err = fmt.Errorf("flow %s: %w", f.Name, err)
	}
	return fault.Wrap(err, fault.Usage, "")
}

func (f Flow) validate() error {
	switch {
	case f.Streams < 1:
		return fmt.Errorf("%d streams: at least 1 is needed", f.Streams)
	case f.IP() != 4 && f.IP() != 6:
		return fmt.Errorf("family %d: IP has versions 4 and 6", f.Family)
	case f.DSCP > 63:
		return fmt.Errorf("DSCP %d is above 63", f.DSCP)
	case f.Start < 0 || f.Duration < 0:
		return errors.New("start and duration must not be negative")
	case f.Duration == 0 && (f.Kind != Bulk || f.Bytes == 0):
		return errors.New("the duration is 0")
	}
	switch f.Kind {
	case Bulk:
		return nil
	case Request:
		return f.validateRequest()
	case Transfers:
		return f.validateTransfers()
	case Datagram:
		return f.validateDatagram()
	case Program:
		if f.Command == nil || f.Command.Run == "" {
			return errors.New("no command is given")
		}
		return nil
	}
	return fmt.Errorf("%q is no kind of traffic: choose %s, %s, %s, %s or %s", f.Kind, Bulk, Request, Transfers, Datagram, Program)
}

func (f Flow) validateRequest() error {
	switch {
	case f.Request < 1 || f.Response < 1:
		return errors.New("request and response must have at least 1 octet")
	case f.Concurrency < 1:
		return fmt.Errorf("concurrency %d: at least 1 is needed", f.Concurrency)
	}
	return nil
}

// MaxTransfers bounds the expected transfers of one host: each holds a port until a minute after
// its end, and Linux has 28,232.
const MaxTransfers = 20_000

func (f Flow) validateTransfers() error {
	switch {
	case f.Load == nil || len(f.Load.Sizes.Points) == 0:
		return errors.New("transfers need a distribution of sizes")
	case !(f.Load.PerSecond > 0):
		return errors.New("no transfer ever begins")
	case f.Load.Drain < 0 || f.Load.Drain >= f.Duration:
		return fmt.Errorf("none begins in its last %s, and it has %s", f.Load.Drain, f.Duration)
	case f.Load.Expected(f.Duration) > MaxTransfers:
		return fmt.Errorf("%.0f transfers: at most %d are possible", f.Load.Expected(f.Duration), MaxTransfers)
	case f.Streams > 1:
		return errors.New("transfers have no streams: raise their rate")
	}
	return nil
}

func (f Flow) validateDatagram() error {
	switch {
	case f.Rate == 0:
		return errors.New("datagrams need a rate")
	case f.Payload < MinPayload || f.Payload > maxPacket-f.Headers():
		return fmt.Errorf("payload of %d bytes: it must lie between %d and %d", f.Payload, MinPayload, maxPacket-f.Headers())
	case f.Congestion != "":
		return errors.New("datagrams have no congestion control")
	case f.Rate/units.BitRate(f.Streams) == 0:
		return errors.New("the rate is below 1 bit/s per stream")
	}
	return nil
}
