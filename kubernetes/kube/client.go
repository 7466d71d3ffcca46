// Package kube sends requests to the API server of a Kubernetes cluster: it lists and watches nodes, pods, disruption budgets and
// volumes, changes nodes, and evicts pods.
//
// It uses the REST client of client-go with a scheme of its own, which has only the groups core and policy. [New] returns a
// [Client] for a service account in the cluster, or for a server with a token.
//
// A request is sent once: the caller repeats it. Errors are those of k8s.io/apimachinery/pkg/api/errors. A Client may be used
// concurrently.
package kube

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Resources of the client.
const (
	Nodes   = "nodes"
	Pods    = "pods"
	Budgets = "poddisruptionbudgets"
	Volumes = "persistentvolumes"
)

// Refused reports whether the API server refused a request for lack of a right. Refusals of a policy or a webhook are no such errors.
func Refused(err error) bool {
	return apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "denied the request") && !strings.Contains(err.Error(), "denied request")
}

// Needs returns what an operator does about a right that is missing.
func Needs(right string) string {
	return "the service account needs " + right + ": add it to the ClusterRole of weir-kubernetes, as its chart has it"
}

// accept prefers the compact form of objects.
const accept = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON

// Config selects the API server. The zero value is that of the service account of a pod.
type Config struct {
	Server    string // URL
	CAFile    string // PEM certificates that sign that of the server; empty: those of the system
	TokenFile string // it is read again when it changes
	Agent     string // User-Agent
}

// Client is a client of one API server.
type Client struct {
	rest   *rest.RESTClient
	params runtime.ParameterCodec
}

// Scheme returns the types of the client.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	return s, nil
}

// New returns a client. It connects at the first request.
func New(c Config) (*Client, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	config := &rest.Config{Host: c.Server, BearerTokenFile: c.TokenFile, TLSClientConfig: rest.TLSClientConfig{CAFile: c.CAFile}}
	if c.Server == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("find the API server: %w: give kubernetes.server, or run as a pod with a service account", err)
		}
	}
	config.APIPath, config.UserAgent, config.QPS = "/api", c.Agent, -1
	config.GroupVersion, config.NegotiatedSerializer = &corev1.SchemeGroupVersion, serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, accept
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &Client{client, runtime.NewParameterCodec(scheme)}, nil
}

// get begins a request that reads a resource of the whole cluster.
func (c *Client) get(resource string, o *metav1.ListOptions) *rest.Request {
	r := c.rest.Get().MaxRetries(0)
	if resource == Budgets {
		r = r.AbsPath("/apis/policy/v1", resource)
	} else {
		r = r.Resource(resource)
	}
	return r.VersionedParams(o, c.params)
}

// List returns one page of a resource, such as a *corev1.NodeList.
func (c *Client) List(ctx context.Context, resource string, o metav1.ListOptions) (runtime.Object, error) {
	var list runtime.Object = &corev1.NodeList{}
	switch resource {
	case Pods:
		list = &corev1.PodList{}
	case Budgets:
		list = &policyv1.PodDisruptionBudgetList{}
	case Volumes:
		list = &corev1.PersistentVolumeList{}
	}
	return list, c.get(resource, &o).Do(ctx).Into(list)
}

// Watch opens a watch of a resource.
func (c *Client) Watch(ctx context.Context, resource string, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return c.get(resource, &o).Watch(ctx)
}

// Node returns a node as it is now.
func (c *Client) Node(ctx context.Context, name string) (*corev1.Node, error) {
	n := &corev1.Node{}
	return n, c.rest.Get().MaxRetries(0).Resource(Nodes).Name(name).Do(ctx).Into(n)
}

// PatchNode changes a node by a JSON merge patch. Keys that the patch does not have stay, also those of later versions of
// Kubernetes. With a resourceVersion in the patch, it fails with a conflict if the node has changed since.
func (c *Client) PatchNode(ctx context.Context, name string, patch []byte) error {
	return c.rest.Patch(types.MergePatchType).MaxRetries(0).Resource(Nodes).Name(name).Body(patch).Do(ctx).Error()
}

// DeleteNode deletes the node with this uid.
func (c *Client) DeleteNode(ctx context.Context, name, uid string) error {
	id := types.UID(uid)
	o := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id}}
	return c.rest.Delete().MaxRetries(0).Resource(Nodes).Name(name).Body(o).Do(ctx).Error()
}

// Evict evicts the pod with this uid. grace is how many seconds it has to end; nil: its own grace period. A budget that does not allow it is an error with the code 429.
func (c *Client) Evict(ctx context.Context, namespace, name, uid string, grace *int64) error {
	id := types.UID(uid)
	e := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id}, GracePeriodSeconds: grace},
	}
	return c.rest.Post().MaxRetries(0).Namespace(namespace).Resource(Pods).Name(name).SubResource("eviction").Body(e).Do(ctx).Error()
}
