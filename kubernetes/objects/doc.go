// Package objects turns Node and Pod objects of Kubernetes into the small values of package core.
//
// [Node] and [Pod] keep what the adapter needs, about a tenth of an object. They accept each object that the API server
// accepts, and bound what they keep of it. Annotations that forbid to remove a node or a pod are those of cluster-autoscaler,
// Karpenter and Clusterman.
//
// The functions are pure and may be called concurrently.
package objects
