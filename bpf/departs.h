/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a limit by delay tells the qdisc of a packet whose departure time it has seen to, in
 * skb->tc_index: that it waits where departure times are kept, so that packets of one flow wait in
 * one queue whether their time is now or later. TCP's own packets have a time without it.
 */
#ifndef WEIR_DEPARTS_H
#define WEIR_DEPARTS_H

#define DEPARTS 0x77e1

#endif
