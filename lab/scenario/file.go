// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/lab/expect"
	"weir/lab/link/loss"
)

// file is the YAML form of a scenario, used in this package only. The head describes the experiment
// and has no parameters. The rest is read once per cell, with the cell's values in place of
// ${parameters}.
type file struct {
	yamlfile.Fields `yaml:"-"`
	head
	Hosts   []nodeFile  `yaml:"hosts,required" doc:"Hosts: where flows begin and end. A host does not forward."`
	Routers []nodeFile  `yaml:"routers" doc:"Routers: they forward IPv4 and IPv6."`
	Links   []linkFile  `yaml:"links,required" doc:"Links, each between two nodes. The order gives the addresses."`
	Routes  []routeFile `yaml:"routes" doc:"Routes that are not the shortest path, one direction each."`
	Limits  []limitFile `yaml:"limits" doc:"Bandwidth limits on the traffic of hosts."`
	Phases  []phaseFile `yaml:"phases,required" doc:"Phases of the run, one after the other."`
}

type head struct {
	Version     int            `yaml:"version,required" doc:"Version of the format: 1."`
	Name        string         `yaml:"name" doc:"Name in lists and bundles; the file's name without its extension if left out."`
	Title       string         `yaml:"title,required" doc:"The subject of the measurement, in one line."`
	Description string         `yaml:"description" doc:"The question that the scenario answers, and its method."`
	Seed        uint64         `yaml:"seed" doc:"Seed of every random choice: losses, jitter, the order of runs. 1 if left out or 0."`
	Repetitions *int           `yaml:"repetitions" doc:"Runs of each cell; 1 if left out."`
	Attempts    *int           `yaml:"attempts" doc:"Tries per repetition before the machine is reported as unfit; 3 if left out."`
	Sweep       *yamlfile.Node `yaml:"sweep" doc:"Varied parameters: a list of values each, or a mapping from a value's name to the variables that it sets. Every combination is a cell; the first parameter changes slowest." schema:"{\"type\":\"object\",\"additionalProperties\":{\"anyOf\":[{\"type\":\"array\",\"items\":{\"type\":[\"string\",\"number\",\"boolean\"]}},{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\",\"additionalProperties\":{\"type\":[\"string\",\"number\",\"boolean\"]}}}]}}"`
	TimeLimit   units.Duration `yaml:"time_limit" doc:"Time after which no further run starts; verdicts use the runs so far. No limit if left out."`
	Skip        []skipFile     `yaml:"skip" doc:"Excluded combinations of the sweep."`
	Fallback    *fallbackFile  `yaml:"fallback" doc:"A parameter with values to try in order; the run uses the first that this machine carries."`
	Expect      []expectFile   `yaml:"expect" doc:"Statements about the results; each gives a verdict."`
	Published   []published    `yaml:"published" doc:"Figures from the literature, shown beside the measurement."`
	Figures     []figureFile   `yaml:"figures" doc:"Plots of the report."`
}

type fallbackFile struct {
	yamlfile.Fields `yaml:"-"`
	Parameter       string         `yaml:"parameter,required" doc:"Name of the parameter, as in ${rate}."`
	Values          []string       `yaml:"values,required" doc:"Its values, best first."`
	Within          units.Duration `yaml:"within" doc:"Time for the choice. After it the run uses the last value if none held, and keeps a value that held. No limit if left out."`
}

// skipFile maps parameters to one value or several.
type skipFile = yamlfile.Map[wordList]

type nodeFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string               `yaml:"name,required" doc:"Name of the node."`
	Sysctls         yamlfile.Map[string] `yaml:"sysctls" doc:"Settings of the node's own network namespace, such as net.ipv4.tcp_rmem."`
	Offloads        yamlfile.Map[bool]   `yaml:"offloads" doc:"Offloads of the node's devices: tso, gso, gro, tx, rx."`
	Forwarding      string               `yaml:"forwarding" enum:"kernel,xdp,flower" doc:"A router's fast path: its kernel, or Weir's offload by XDP or by tc flower in software; kernel if left out."`
	IOAM            *ioamFile            `yaml:"ioam" doc:"Makes it a node of an IOAM domain, with the keys of a policy's section ioam. Interfaces are the node's links, by name."`
}

type linkFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string       `yaml:"name" doc:"Name of the link; \"a-b\" of its ends if left out."`
	Ends            []string     `yaml:"ends,required" doc:"The two nodes [a, b]. Forward is from a to b."`
	MTU             *int         `yaml:"mtu" doc:"Maximum IP packet in bytes, 1280-9000; 1500 if left out."`
	Plain           bool         `yaml:"plain" doc:"A bare veth pair without emulation, calibration or monitoring."`
	Classes         *classesFile `yaml:"classes" doc:"Queues for classes of service at both ends of a plain link; their rate becomes the link's."`
	directionFile
	Forward *override `yaml:"forward" doc:"Overrides from a to b."`
	Reverse *override `yaml:"reverse" doc:"Overrides from b to a."`
}

type override struct {
	yamlfile.Fields `yaml:"-"`
	directionFile
}

// directionFile holds the impairments of a link. Pointers distinguish a missing key from a zero, so
// that overrides can be merged.
type directionFile struct {
	Rate      *units.BitRate  `yaml:"rate" doc:"Bits per second on the wire, Ethernet overhead of 24 bytes per frame included; no limit if left out."`
	Delay     *units.Duration `yaml:"delay" doc:"One-way delay after the queue."`
	Jitter    *jitterFile     `yaml:"jitter" doc:"Variation of the delay."`
	Loss      *lossFile       `yaml:"loss" doc:"Frames lost after the queue."`
	Reorder   *share          `yaml:"reorder" doc:"Share of frames sent at once instead of delayed."`
	Duplicate *share          `yaml:"duplicate" doc:"Share of frames sent twice."`
	Corrupt   *share          `yaml:"corrupt" doc:"Share of frames with one bit inverted."`
	Schedule  *[]stepFile     `yaml:"schedule" doc:"Changes over time: steps that begin with the run's first phase and repeat."`
	Trace     *string         `yaml:"trace" doc:"Deliveries over time, in the format of mahimahi: the trace itself, or its file. It repeats."`
	Queue     *queueFile      `yaml:"queue" doc:"Drop-tail queue in front of the rate; 1000 packets if left out."`
}

type stepFile struct {
	yamlfile.Fields `yaml:"-"`
	For             units.Duration  `yaml:"for,required" doc:"Length of the step."`
	Rate            *units.BitRate  `yaml:"rate" doc:"Rate, at most the link's; 0 stops the link. The link's if left out."`
	Delay           *units.Duration `yaml:"delay" doc:"Delay; the link's if left out."`
	Loss            *lossFile       `yaml:"loss" doc:"Loss; the link's if left out."`
}

type jitterFile struct {
	yamlfile.Fields `yaml:"-"`
	Deviation       units.Duration `yaml:"deviation,required" doc:"Half the width of a uniform distribution, the standard deviation of the others."`
	Distribution    string         `yaml:"distribution" enum:"uniform,normal,pareto" doc:"Shape of the variation; uniform if left out."`
	KeepOrder       bool           `yaml:"keep_order" doc:"No frame overtakes another."`
}

type lossFile struct {
	yamlfile.Fields `yaml:"-"`
	loss.Keys
}

type queueFile struct {
	yamlfile.Fields `yaml:"-"`
	Bytes           *units.ByteSize `yaml:"bytes" doc:"Maximum bytes of queued frames."`
	Packets         *int            `yaml:"packets" doc:"Maximum number of queued frames."`
	BDP             *float64        `yaml:"bdp" doc:"Length in bandwidth-delay products of the link's rate and rtt."`
	RTT             *units.Duration `yaml:"rtt" doc:"Round-trip time of the product; if left out, the longest of any flow over the link, by the delays of its path."`
	Discipline      string          `yaml:"discipline" enum:"codel,fq_codel,pie,cake" doc:"Queue discipline: CoDel (RFC 8289), FQ-CoDel (RFC 8290), PIE (RFC 8033), or CAKE on kernels with netem and CAKE; the netem carrier uses the kernel's own. Drop-tail if left out."`
	Target          *units.Duration `yaml:"target" doc:"Target delay of the discipline; 5ms if left out, 15ms for PIE."`
	Interval        *units.Duration `yaml:"interval" doc:"CoDel: maximum time of a delay above the target, 100ms if left out; PIE: time between updates, 15ms if left out."`
	Mark            bool            `yaml:"mark" doc:"The discipline marks ECN-capable frames instead of dropping them."`
	ECN             *threshold      `yaml:"ecn" doc:"Mark ECN-capable frames if more than this is queued: bytes, or time at the link's rate."`
}

type routeFile struct {
	yamlfile.Fields `yaml:"-"`
	From            string          `yaml:"from,required" doc:"Node that sends."`
	To              string          `yaml:"to,required" doc:"Destination node, all of its addresses."`
	Via             []yamlfile.Text `yaml:"via,required" doc:"Links of the path, in order from the sender."`
}

type phaseFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string         `yaml:"name" doc:"Name of the phase; \"phase 1\" and so on if left out."`
	Duration        units.Duration `yaml:"duration,required" doc:"Length of the phase."`
	Settle          units.Duration `yaml:"settle" doc:"Time at the phase's start that figures exclude."`
	Solo            bool           `yaml:"solo" doc:"Also measure each bulk and UDP flow of the phase alone, in separate runs: the base of harm."`
	Flows           []flowFile     `yaml:"flows" doc:"TCP and UDP traffic."`
	Streams         []streamFile   `yaml:"streams" doc:"Stamped frames of the tester, each one judged."`
	Procedure       *procedureFile `yaml:"procedure" doc:"A benchmark of the network between two hosts, instead of flows and streams; duration is its maximum time."`
}

type flowFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string          `yaml:"name" doc:"Subject of the flow's figures; its kind if left out."`
	Kind            string          `yaml:"kind,required" enum:"bulk,request,transfers,udp,command" doc:"bulk: TCP as fast as it goes; request: TCP request and response; transfers: TCP connections with random arrivals, one size each; udp: datagrams at a rate; command: traffic of programs."`
	From            string          `yaml:"from,required" doc:"Sender; of requests, the client."`
	To              string          `yaml:"to,required" doc:"Receiver; of requests, the server."`
	Family          *int            `yaml:"family" doc:"IP version, 4 or 6; 4 if left out."`
	Generator       string          `yaml:"generator" enum:"weir,iperf3" doc:"Traffic generator; if left out, the command's choice."`
	Congestion      string          `yaml:"congestion" doc:"TCP congestion control, such as cubic or bbr; the kernel's default if left out."`
	DSCP            dscp            `yaml:"dscp" doc:"Code point 0-63 or its name."`
	ECN             bool            `yaml:"ecn" doc:"TCP requests ECN."`
	Streams         *int            `yaml:"streams" doc:"Identical connections, or datagram streams; 1 if left out."`
	Start           units.Duration  `yaml:"start" doc:"Start after the phase's start."`
	Duration        *units.Duration `yaml:"duration" doc:"Length; up to the phase's end if left out."`
	Request         *units.ByteSize `yaml:"request" doc:"request: bytes of a request; 100 if left out."`
	Response        *units.ByteSize `yaml:"response" doc:"request: bytes of a response; 1000 if left out."`
	Concurrency     *int            `yaml:"concurrency" doc:"request: exchanges in flight per stream; 1 if left out."`
	Rate            *units.BitRate  `yaml:"rate" doc:"udp: payload rate of all streams together; bulk: the application's own limit."`
	Payload         *int            `yaml:"payload" doc:"udp: payload of a datagram in bytes; 1200 if left out."`
	Bytes           *units.ByteSize `yaml:"bytes" doc:"bulk: size of each stream; unlimited if left out."`
	Sizes           *sizesFile      `yaml:"sizes" doc:"transfers: distribution of their sizes."`
	Most            *units.ByteSize `yaml:"most" doc:"transfers: maximum size; larger draws are capped."`
	Arrivals        *perSecond      `yaml:"arrivals" doc:"transfers: mean number of starts per second."`
	Load            *share          `yaml:"load" doc:"transfers: mean load as a share of the rate of the path's slowest link, headers included; instead of arrivals."`
	Drain           units.Duration  `yaml:"drain" doc:"transfers: time at the flow's end without new transfers, so that the last can complete."`
	Run             string          `yaml:"run" doc:"command: line for /bin/sh; the flow ends when it does."`
	RunsAt          string          `yaml:"at" enum:"from,to" doc:"command: the end at which run runs, and server at the other; from if left out."`
	Server          string          `yaml:"server" doc:"command: line for /bin/sh at the other end, started before the phase and ended with the flow."`
	Port            *int            `yaml:"port" doc:"command: port on which server listens, TCP or UDP; the phase begins when it does."`
}

type streamFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string          `yaml:"name,required" doc:"Subject of the stream's figures."`
	From            string          `yaml:"from,required" doc:"Host that sends."`
	To              string          `yaml:"to,required" doc:"Host that receives."`
	Family          *int            `yaml:"family" doc:"IP version, 4 or 6; 4 if left out."`
	FrameSize       *int            `yaml:"frame_size" doc:"Bytes of the Ethernet frame, FCS included; 128 if left out, at least 64 with IPv4 and 84 with IPv6."`
	Rate            float64         `yaml:"rate,required" doc:"Frames per second, of all count streams together."`
	Count           *int            `yaml:"count" doc:"Identical streams, 1 if left out, 1000 in a phase at most: each has its own UDP port and sequence numbers, and they send in rotation. Figures cover all together; reordering and delay variation are judged within each."`
	DSCP            dscp            `yaml:"dscp" doc:"Code point 0-63 or its name."`
	Start           units.Duration  `yaml:"start" doc:"Start after the phase's start."`
	Duration        *units.Duration `yaml:"duration" doc:"Length; up to the phase's end if left out."`
}

type expectFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string                `yaml:"name,required" doc:"The statement, in words."`
	Metric          string                `yaml:"metric,required" doc:"Name of a metric."`
	Subject         wordList              `yaml:"subject" doc:"A flow, a stream, aggregate, a link's direction such as path forward, or a node of an IOAM domain (domain: all nodes). Each subject of a list gets a separate verdict, with its name after the statement. Optional if there is one candidate; the default is aggregate if the metric has it."`
	Where           yamlfile.Map[string]  `yaml:"where" doc:"Values of parameters: the statement applies to every cell with these values; all cells if left out."`
	RelativeTo      *yamlfile.Map[string] `yaml:"relative_to" doc:"Parameters with other values: each cell is compared with the cell that has these values instead, and min and max are ratios."`
	expect.Keys
}

type published struct {
	yamlfile.Fields `yaml:"-"`
	Source          string                `yaml:"source,required" doc:"Where the figure was published."`
	Metric          string                `yaml:"metric,required" doc:"Name of a metric."`
	Subject         string                `yaml:"subject" doc:"As in expect."`
	Where           yamlfile.Map[string]  `yaml:"where" doc:"Values of parameters of the published measurement."`
	RelativeTo      *yamlfile.Map[string] `yaml:"relative_to" doc:"The value is a ratio to the metric at these parameters."`
	Value           yamlfile.Text         `yaml:"value,required" doc:"The figure, in the metric's unit, or the ratio."`
}

type figureFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string `yaml:"name,required" doc:"File name of the plot, without extension."`
	Title           string `yaml:"title,required" doc:"Title of the plot."`
	Metric          string `yaml:"metric,required" doc:"Metric on the vertical axis."`
	Subject         string `yaml:"subject" doc:"As in expect."`
	X               string `yaml:"x,required" doc:"Parameter along the horizontal axis; \"time\" for a time series."`
	Series          string `yaml:"series" doc:"Parameter with one curve per value; \"subject\" draws a curve per flow."`
	LogY            bool   `yaml:"log_y" doc:"Logarithmic vertical axis."`
}
