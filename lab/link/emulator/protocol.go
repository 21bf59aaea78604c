// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"time"

	"weir/internal/units"
	"weir/lab/link"
)

// The parent writes one order a line to the child's standard input and reads one report a line; the
// first order starts.
type order struct {
	Do        string       `json:"do"` // "start", "status", "begin", "capture", "depths", "stop"
	Namespace string       `json:"namespace,omitempty"`
	Spin      int64        `json:"spin_ns,omitempty"`
	Cables    []cableOrder `json:"cables,omitempty"`
	Folder    string       `json:"folder,omitempty"` // of packet traces
	Octets    int          `json:"octets,omitempty"` // of a frame in them
}

type cableOrder struct {
	Name       string         `json:"name"`
	A          string         `json:"a"`
	B          string         `json:"b"`
	Forward    directionOrder `json:"forward"`
	Reverse    directionOrder `json:"reverse"`
	Buffers    int            `json:"buffers"`
	BufferSize int            `json:"buffer_size"`
	Ring       int            `json:"ring"`
	Jumbo      bool           `json:"jumbo"`
}

// directionOrder is a direction with exact plain numbers.
type directionOrder struct {
	link.Direction
	Rate  uint64 // hides Direction's own
	Queue queueOrder
}

type queueOrder struct {
	Bytes   uint64
	Packets int
	ECN     uint64
	Managed link.Queue // for its discipline
}

func orderOf(d link.Direction) directionOrder {
	return directionOrder{
		Direction: d, Rate: uint64(d.Rate),
		Queue: queueOrder{Bytes: uint64(d.Queue.Bytes), Packets: d.Queue.Packets, ECN: uint64(d.Queue.ECN), Managed: d.Queue},
	}
}

func (o directionOrder) direction() link.Direction {
	d := o.Direction
	d.Rate = units.BitRate(o.Rate)
	managed := o.Queue.Managed
	d.Queue = link.Queue{Discipline: managed.Discipline, Target: managed.Target, Interval: managed.Interval, Mark: managed.Mark,
		Bytes: units.ByteSize(o.Queue.Bytes), Packets: o.Queue.Packets, ECN: units.ByteSize(o.Queue.ECN)}
	return d
}

type report struct {
	Error  string        `json:"error,omitempty"`
	Status []link.Status `json:"status,omitempty"`
	CPU    time.Duration `json:"cpu_ns,omitempty"`
	Depths [][2][]uint32 `json:"depths,omitempty"`
}
