/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The shaper sets skb->tc_index to DEPARTS on each packet that it has scheduled. A qdisc tree with
 * classes then queues the packet in the fq that keeps departure times, so that all packets of a
 * flow stay in one queue. Packets paced by TCP alone have a departure time without this value.
 */
#ifndef WEIR_DEPARTS_H
#define WEIR_DEPARTS_H

#define DEPARTS 0x77e1

#endif
