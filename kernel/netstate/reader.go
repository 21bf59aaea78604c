// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// reader fills a state from the namespace of the thread that created it.
type reader struct {
	state  State
	socket *nl.SocketHandle
	names  map[int]string // devices by index
}

func newReader(state State) (*reader, error) {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	return &reader{state: state, socket: &nl.SocketHandle{Socket: socket}, names: map[int]string{}}, nil
}

func (r *reader) close() { r.socket.Close() }

// dump requests all objects of a kind and calls f with each message.
func (r *reader) dump(get int, header nl.NetlinkRequestData, f func(message []byte) error) error {
	for attempt := 1; ; attempt++ {
		request := nl.NewNetlinkRequest(get, unix.NLM_F_DUMP)
		request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: r.socket}
		request.AddData(header)
		messages, err := request.Execute(unix.NETLINK_ROUTE, 0)
		switch {
		case errors.Is(err, netlink.ErrDumpInterrupted) && attempt < 10:
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EPROTONOSUPPORT):
			return nil // not in this kernel
		case err != nil:
			return err
		}
		for _, message := range messages {
			if err := f(message); err != nil {
				return err
			}
		}
		return nil
	}
}

// raw is the encoded header of a request.
type raw []byte

func (b raw) Len() int          { return len(b) }
func (b raw) Serialize() []byte { return b }

// add records fields under an object's name: "device eth0: MTU".
func (r *reader) add(o object) { o.into(r.state) }

func (r *reader) each(get int, header raw, decode func(message []byte) (object, bool, error)) func() error {
	return func() error {
		return r.dump(get, header, func(message []byte) error {
			o, counts, err := decode(message)
			if err == nil && counts {
				r.add(o)
			}
			return err
		})
	}
}

func (r *reader) devices() error {
	return r.dump(unix.RTM_GETLINK, raw(make([]byte, unix.SizeofIfInfomsg)), func(message []byte) error {
		o, index, err := decodeDevice(message)
		if err != nil {
			return err
		}
		r.names[index] = o.short
		r.add(o)
		return nil
	})
}

func (r *reader) addresses() error {
	return r.each(unix.RTM_GETADDR, raw(make([]byte, unix.SizeofIfAddrmsg)), r.decoder().address)()
}

func (r *reader) routing() error {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		header := make([]byte, unix.SizeofRtMsg)
		header[0] = family
		for get, decode := range map[int]func([]byte) (object, bool, error){unix.RTM_GETROUTE: r.decoder().route, unix.RTM_GETRULE: r.decoder().rule} {
			if err := r.each(get, header, decode)(); err != nil {
				return err
			}
		}
	}
	return r.each(unix.RTM_GETNEXTHOP, raw(make([]byte, 8)), r.decoder().nexthop)()
}

func (r *reader) neighbors() error {
	return r.each(unix.RTM_GETNEIGH, raw(make([]byte, unix.SizeofNdMsg)), r.decoder().neighbor)()
}

// plainKinds are qdiscs without classes and filters.
var plainKinds = map[string]bool{"noqueue": true, "pfifo": true, "bfifo": true, "pfifo_fast": true}

// traffic reads qdiscs of all devices, and of each device its classes and filters.
func (r *reader) traffic() error {
	type place struct {
		nl.TcMsg
		kind string
	}
	var parents []place
	err := r.dump(unix.RTM_GETQDISC, &nl.TcMsg{}, func(message []byte) error {
		o, counts, err := r.decoder().qdisc(message)
		if err == nil && counts {
			r.add(o)
			parents = append(parents, place{*nl.DeserializeTcMsg(message), o.fields["kind"]})
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, at := range parents {
		if at.Handle == 0 || plainKinds[at.kind] { // no classes or filters
			continue
		}
		if err := r.each(unix.RTM_GETTCLASS, (&nl.TcMsg{Ifindex: at.Ifindex}).Serialize(), r.decoder().class)(); err != nil {
			return err
		}
		for _, parent := range []uint32{at.Handle, clsactIngress, clsactEgress} {
			if err := r.each(unix.RTM_GETTFILTER, (&nl.TcMsg{Ifindex: at.Ifindex, Parent: parent}).Serialize(), r.decoder().filter)(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) decoder() decoder { return decoder{names: r.names} }
