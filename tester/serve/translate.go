// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/tree"
	"weir/tester/instrument"
)

// translation is the state of all ports that a configuration asks for. Parts that a configuration
// shares with the former one keep their pointers.
type translation struct {
	setups     map[string]instrument.Setup
	generators map[*tree.Node]*instrument.Generator
	analyzers  map[*tree.Node]*instrument.Analyzer
}

// translate reads the ports of a configuration. former may be nil.
func (m *model) translate(root *tree.Node, former *translation) (*translation, *rpcerr.Error) {
	t := &translation{map[string]instrument.Setup{}, map[*tree.Node]*instrument.Generator{}, map[*tree.Node]*instrument.Analyzer{}}
	if former == nil {
		former = t
	}
	list := root.From(interfaces, "interfaces")
	for _, port := range list.All("interface") {
		path := (*tree.Path)(nil).To(list).To(port)
		if kind := port.Text("type"); kind != ethernet {
			return nil, path.To(port.Kid("type")).Fail(rpcerr.InvalidValue, "the type of a port is ethernetCsmacd")
		}
		setup, err := m.port(port, path, former, t)
		if err != nil {
			return nil, err
		}
		t.setups[port.Text("name")] = setup
	}
	return t, nil
}

func (m *model) port(port *tree.Node, path *tree.Path, former, t *translation) (setup instrument.Setup, err *rpcerr.Error) {
	if port.Text("enabled") == "false" {
		return setup, nil
	}
	if n := port.From(generator, "traffic-generator"); n != nil {
		g := former.generators[n]
		if g == nil {
			if g, err = m.generatorOf(n, path.To(n)); err != nil {
				return setup, err
			}
		}
		setup.Generator, t.generators[n] = g, g
	}
	if n := port.From(analyzer, "traffic-analyzer"); n != nil {
		a := former.analyzers[n]
		if a == nil {
			if a, err = m.analyzerOf(n, path.To(n)); err != nil {
				return setup, err
			}
		}
		setup.Analyzer, t.analyzers[n] = a, a
	}
	return setup, nil
}

func (m *model) generatorOf(n *tree.Node, path *tree.Path) (*instrument.Generator, *rpcerr.Error) {
	g := &instrument.Generator{Total: schema.Uint(n.Text("total-frames")), StartDelay: schema.Uint(n.Text("start-delay"))}
	if epoch := n.Kid("realtime-epoch"); epoch != nil {
		at, err := time.Parse(time.RFC3339Nano, epoch.Value.Text)
		if err != nil {
			return nil, path.To(epoch).Fail(rpcerr.InvalidValue, "%s", err)
		}
		g.Epoch = at
	}
	if n.Kid("frame-size") != nil {
		s, err := m.stream(n, path, nil)
		if err != nil {
			return nil, err
		}
		g.Streams = []instrument.Stream{*s}
		return g, nil
	}
	list := n.Kid("streams")
	if list == nil && m.flat {
		return nil, nil // the container has no presence in the oldest revision
	}
	var before []byte // frame data of the closest lower id
	for _, one := range inOrder(list.All("stream")) {
		s, err := m.stream(one, path.To(list).To(one), before)
		if err != nil {
			return nil, err
		}
		before = s.Data
		s.Frames, s.StreamGap = schema.Uint(one.Text("frames-per-stream")), schema.Uint(one.Text(m.streamGap))
		if s.Frames > 0 { // a stream without frames has no turn
			g.Streams = append(g.Streams, *s)
		}
	}
	if len(g.Streams) > instrument.MaxStreams {
		return nil, path.To(list).Fail(rpcerr.ResourceDenied, "%d streams are more than %d", len(g.Streams), instrument.MaxStreams)
	}
	return g, nil
}

// inOrder sorts list entries by their numeric ids.
func inOrder(entries []*tree.Node) []*tree.Node {
	slices.SortFunc(entries, func(a, b *tree.Node) int { return cmp.Compare(schema.Uint(a.Text("id")), schema.Uint(b.Text("id"))) })
	return entries
}

func (m *model) stream(n *tree.Node, path *tree.Path, data []byte) (*instrument.Stream, *rpcerr.Error) {
	s := &instrument.Stream{
		Dynamic: n.Text("testframe-type") == generator+":dynamic", Data: data,
		Size: int(schema.Uint(n.Text("frame-size"))), Gap: schema.Uint(n.Text(m.gap)), Burst: uint32(schema.Uint(n.Text("frames-per-burst"))),
	}
	s.BurstGap = s.Gap
	if n.Kid(m.burstGap) != nil {
		s.BurstGap = schema.Uint(n.Text(m.burstGap))
	}
	if own := n.Kid("frame-data"); own != nil {
		var err *rpcerr.Error
		if s.Data, err = m.octets(own, path.To(own)); err != nil {
			return nil, err
		}
	}
	list := n.Kid("modifiers")
	for _, one := range inOrder(list.All("modifier")) {
		mask, err := m.octets(one.Kid("mask"), path.To(list).To(one).To(one.Kid("mask")))
		if err != nil {
			return nil, err
		}
		s.Modifiers = append(s.Modifiers, instrument.Modifier{
			Action: actions[one.Text("action")], Offset: int(schema.Uint(one.Text("offset"))), Mask: mask,
			Repetitions: uint32(schema.Uint(one.Text("repetitions"))),
		})
	}
	return s, nil
}

var actions = map[string]instrument.Action{
	generator + ":increment": instrument.Increment, generator + ":decrement": instrument.Decrement, generator + ":random": instrument.Random,
}

// octets decodes a leaf with binary data.
func (m *model) octets(n *tree.Node, path *tree.Path) (octets []byte, err *rpcerr.Error) {
	var problem error
	if m.hex {
		octets, problem = hex.DecodeString(n.Value.Text)
	} else {
		octets, problem = base64.StdEncoding.DecodeString(n.Value.Text)
	}
	if problem != nil {
		return nil, path.Fail(rpcerr.InvalidValue, "%s", problem)
	}
	return octets, nil
}

func (m *model) analyzerOf(n *tree.Node, path *tree.Path) (*instrument.Analyzer, *rpcerr.Error) {
	a := &instrument.Analyzer{}
	parent, at, name := n.Kid("testframe"), path, "filter"
	if m.flat {
		parent, name = n, "testframe-filter"
	} else if parent != nil {
		at = path.To(parent)
	}
	if f := parent.Kid(name); f != nil {
		var err *rpcerr.Error
		if a.Filter, err = m.filter(f, at.To(f)); err != nil {
			return nil, err
		}
	}
	if c := n.Kid("capture"); c != nil {
		a.Capture = &instrument.Capture{WhenFull: c.Kid("stop-trigger") != nil}
		if start := c.Kid("start-trigger"); start != nil {
			a.Capture.FrameIndex = schema.Uint(start.Text("frame-index"))
			a.Capture.TestframeIndex = schema.Uint(start.Text("testframe-index"))
		}
		a.Capture.Snap = uint32(min(schema.Uint(c.Text("max-frame-data-visible")), instrument.MaxSnap))
	}
	return a, nil
}

func (m *model) filter(f *tree.Node, path *tree.Path) (*instrument.Filter, *rpcerr.Error) {
	for _, name := range []string{"mask", "data"} { // optional in old revisions
		if f.Kid(name) == nil {
			return nil, path.Fail(rpcerr.DataMissing, "a filter needs mask and data")
		}
	}
	mask, err := m.octets(f.Kid("mask"), path.To(f.Kid("mask")))
	if err != nil {
		return nil, err
	}
	data, err := m.octets(f.Kid("data"), path.To(f.Kid("data")))
	if err != nil {
		return nil, err
	}
	offset := schema.Uint(f.Text("offset"))
	switch {
	case len(mask) == 0 || len(mask) > instrument.MaxFilter:
		return nil, path.To(f.Kid("mask")).Fail(rpcerr.InvalidValue, "the mask has %d octets: 1 to %d are possible", len(mask), instrument.MaxFilter)
	case len(mask) != len(data):
		return nil, path.To(f.Kid("data")).Fail(rpcerr.InvalidValue, "data has %d octets and mask %d", len(data), len(mask))
	case offset > instrument.MaxSize:
		return nil, path.To(f.Kid("offset")).Fail(rpcerr.InvalidValue, "no frame has more than %d octets", instrument.MaxSize)
	}
	return &instrument.Filter{Offset: uint32(offset), Mask: mask, Data: data}, nil
}

// rejected names the leaf that a port cannot carry out.
func (m *model) rejected(root *tree.Node, r *instrument.Rejection) *rpcerr.Error {
	list := root.From(interfaces, "interfaces")
	path := (*tree.Path)(nil).To(list)
	for _, port := range list.All("interface") {
		if port.Text("name") != r.Port {
			continue
		}
		path = path.To(port)
		switch n := port.From(generator, "traffic-generator"); {
		case r.Part == "":
			path = path.To(port.Kid("name"))
		case r.Part == "analyzer":
			path = path.To(port.From(analyzer, "traffic-analyzer"))
		case n != nil:
			path = m.leaf(n, path.To(n), r)
		}
	}
	return path.Fail(rpcerr.InvalidValue, "%s", r.Reason)
}

// leaf returns the path of a rejection's field below the generator.
func (m *model) leaf(n *tree.Node, path *tree.Path, r *instrument.Rejection) *tree.Path {
	if list := n.Kid("streams"); list != nil && r.Part != "generator" && r.Part != "realtime-epoch" {
		var with []*tree.Node
		for _, s := range inOrder(list.All("stream")) {
			if s.Text("frames-per-stream") != "0" {
				with = append(with, s)
			}
		}
		if r.Stream < len(with) {
			n, path = with[r.Stream], path.To(list).To(with[r.Stream])
		}
	}
	if index, found := strings.CutPrefix(r.Part, "modifier "); found {
		list := n.Kid("modifiers")
		for i, one := range inOrder(list.All("modifier")) {
			if fmt.Sprint(i) == index {
				return path.To(list).To(one).To(one.Kid("mask"))
			}
		}
	}
	name := r.Part
	if name == "gap" {
		name = m.gap
	}
	if k := n.Kid(name); k != nil {
		return path.To(k)
	}
	return path
}
