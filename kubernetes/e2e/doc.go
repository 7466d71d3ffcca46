// Package e2e has tests of all programs together: the control plane of Kubernetes, the AWS of "weir-local aws", the daemons of
// weir, and weir-kubernetes. Only kubelets and the processes of pods are fakes.
//
// The tests have the build tag plane, and need the programs that "make test-kubernetes" builds. Each has a control plane and a
// pool of its own.
package e2e
