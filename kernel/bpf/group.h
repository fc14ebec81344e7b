// The structures by which a task's control groups are found.

#pragma once

#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
	const char *name;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};

#pragma clang attribute pop

// A directory of a hierarchy: a control group, and what is known by it. Which hierarchy has
// which number is the program's.
struct directory {
	__u64 id;
	__u32 hierarchy, unused;
};
