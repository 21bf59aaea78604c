// SPDX-License-Identifier: Apache-2.0

package probe

import "github.com/cilium/ebpf"

// Feature is a probe with its name.
type Feature struct {
	Group string // heading of the list: "namespaces", "bpf", "hooks", "qdiscs" and so on
	Name  string
	// Option names the kernel options of the feature, and the version if it matters
	// ("CONFIG_X (Linux 5.6)").
	Option string
	Probe  func() error
}

// Features lists all probes in display order. Group and Name together are unique.
func Features() []Feature {
	list := []Feature{
		{"namespaces", "network namespaces", "CONFIG_NET_NS", Namespaces},
		{"namespaces", "veth", "CONFIG_VETH", Veth},
		{"bpf", "system call", "CONFIG_BPF_SYSCALL", BPF},
		{"bpf", "btf", "CONFIG_DEBUG_INFO_BTF", BTF},
		{"bpf", "jit", "CONFIG_BPF_JIT", JIT},
	}
	for _, p := range programs {
		list = append(list, Feature{"bpf programs", p.name, p.option, func() error { return ProgramType(p.kind) }})
	}
	for _, m := range maps {
		list = append(list, Feature{"bpf maps", m.name, m.option, func() error { return MapType(m.kind) }})
	}
	list = append(list,
		Feature{"hooks", "xdp native on veth", "CONFIG_VETH (Linux 4.19)", XDPNative},
		Feature{"hooks", "xdp generic", "CONFIG_BPF_SYSCALL (Linux 4.12)", XDPGeneric},
		Feature{"hooks", "xdp live frames", "CONFIG_PAGE_POOL (Linux 5.18)", LiveFrames},
		Feature{"hooks", "af_xdp copy mode on veth", "CONFIG_XDP_SOCKETS", AFXDP},
		Feature{"hooks", "ifb", "CONFIG_IFB", IFB},
		Feature{"hooks", "tcx", "CONFIG_NET_XGRESS (Linux 6.6)", TCX},
		Feature{"hooks", "iter/tcp", "CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_JIT (Linux 5.9)", TCPIterator},
		Feature{"hooks", "callbacks of open sockets", "CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_JIT (Linux 6.12)", OpenSockets},
		Feature{"hooks", "tp_btf cgroup_mkdir", "CONFIG_BPF_EVENTS and CONFIG_DEBUG_INFO_BTF (Linux 5.5)", CgroupMade},
		Feature{"hooks", "congestion control in bpf", "CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_JIT (Linux 6.4)", CongestionOps},
	)
	for _, kind := range qdiscs {
		list = append(list, Feature{"qdiscs", kind, qdiscOption(kind), func() error { return Qdisc(kind) }})
	}
	for _, kind := range classifiers {
		list = append(list, Feature{"classifiers", kind, classifierOption(kind), func() error { return Classifier(kind) }})
	}
	for _, name := range []string{"reno", "cubic", "bbr", "dctcp"} {
		list = append(list, Feature{"tcp", name, congestionOption(name), func() error { return CongestionControl(name) }})
	}
	return append(list,
		Feature{"ipv6", "ipv6", "CONFIG_IPV6", IPv6},
		Feature{"ipv6", "ioam node", "CONFIG_IPV6 (Linux 5.15)", IOAM6},
		Feature{"ipv6", "ioam encapsulation", "CONFIG_IPV6_IOAM6_LWTUNNEL", IOAM6Tunnel},
		Feature{"ipv6", "srv6 encapsulation", "CONFIG_IPV6_SEG6_LWTUNNEL", Seg6Tunnel},
		Feature{"ipv6", "bpf encapsulation", "CONFIG_LWTUNNEL_BPF", BPFTunnel},
		Feature{"cgroups", "cgroup v2", "CONFIG_CGROUPS", CgroupV2},
		Feature{"cgroups", "cgroup_skb egress", "CONFIG_CGROUP_BPF", cgroupHook(ebpf.AttachCGroupInetEgress)},
		Feature{"cgroups", "cgroup_skb ingress", "CONFIG_CGROUP_BPF", cgroupHook(ebpf.AttachCGroupInetIngress)},
		Feature{"cgroups", "sock_ops", "CONFIG_CGROUP_BPF", cgroupHook(ebpf.AttachCGroupSockOps)},
	)
}

func cgroupHook(kind ebpf.AttachType) func() error { return func() error { return CgroupHook(kind) } }
