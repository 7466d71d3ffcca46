"""Checks requests of the Go SDK and responses of the test server against botocore's models.

Standard input: JSON, a list of {service, action, status, target, request, answer} (the bodies as text).
Standard output: a line for each difference; empty without differences.

EC2, Auto Scaling and Elastic Load Balancing: the script reads the request's parameters by the operation's input shape, encodes
them with botocore's serializer, and compares the result with the form in the request. It parses the response with
botocore's parser, and every element must be in the output shape. SQS, the price list and CloudWatch use JSON or CBOR here (the
latter comes as JSON), but the models of that time have other protocols: the script compares names and types of parameters and
responses with the shapes.
"""
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ET

import botocore.parsers
import botocore.serialize
import botocore.session

# Parameters that are newer than the models of December 2022, by name.
NEWER = {
    ("autoscaling", "DescribeAutoScalingGroups"): {"IncludeInstances"},
    ("autoscaling", "DescribeScalingActivities"): {"Filters"},
    ("sqs", "ReceiveMessage"): {"MessageSystemAttributeNames"},
}
# Elements of responses that are newer.
NEWER_ELEMENTS = {("DescribeSpotPriceHistory", "availabilityZoneId")}
# Services with JSON, and the target of their requests.
TARGETS = {"sqs": "AmazonSQS", "pricing": "AWSPriceListService", "cloudwatch": "GraniteServiceVersion20100801"}
# Service name in request signatures: name in botocore, and version.
MODELS = {
    "ec2": ("ec2", "2016-11-15"), "autoscaling": ("autoscaling", "2011-01-01"), "sqs": ("sqs", "2012-11-05"),
    "elasticloadbalancing": ("elbv2", "2015-12-01"), "pricing": ("pricing", "2017-10-15"),
    "cloudwatch": ("cloudwatch", "2010-08-01"),
}
SCALARS = {
    "integer": int, "long": int, "float": float, "double": float,
    "boolean": lambda v: {"true": True, "false": False}[v],
}


def main():
    session = botocore.session.get_session()
    models = {s: session.get_service_model(name, api_version=v) for s, (name, v) in MODELS.items()}
    problems = []
    for said in json.load(sys.stdin):
        operation = models[said["service"]].operation_model(said["action"])
        check = check_json if said["service"] in TARGETS else check_query
        for problem in check(operation, said):
            problems.append("%s %s: %s" % (said["service"], said["action"], problem))
    print("\n".join(sorted(set(problems))), end="")


def check_query(operation, said):
    ec2 = operation.service_model.metadata["protocol"] == "ec2"
    form = dict(urllib.parse.parse_qsl(said["request"], keep_blank_values=True, strict_parsing=True))
    newer = NEWER.get((said["service"], said["action"]), set())
    form = {k: v for k, v in form.items() if k.split(".")[0] not in newer}
    plain = {k: v for k, v in form.items() if k not in ("Action", "Version")}
    left = dict(plain)
    params = read_structure(operation.input_shape, "", left, ec2)
    for name in left:
        yield "request: the model has no %s" % name
    serializer = botocore.serialize.create_serializer(operation.service_model.metadata["protocol"])  # also checks the types
    again = {k: str(v) for k, v in serializer.serialize_to_request(params, operation)["body"].items()}
    if again != form:
        yield "request: botocore writes %s, and this came: %s" % (sorted(again.items()), sorted(form.items()))
    yield from check_answer(operation, said, ec2)


def wire_name(shape, name, member, ec2):
    """Returns the name of a member in a form, for the two variants of the query protocol."""
    s = member.serialization
    if ec2:
        return s["queryName"] if "queryName" in s else s["name"][0].upper() + s["name"][1:] if "name" in s else name
    if member.type_name == "list" and s.get("flattened"):
        return member.member.serialization.get("name", name)
    return s.get("name", name)


def read_structure(shape, prefix, left, ec2):
    out = {}
    for name, member in shape.members.items():
        at = prefix + wire_name(shape, name, member, ec2)
        if any(k == at or k.startswith(at + ".") for k in left):
            out[name] = read(member, at, left, ec2)
    return out


def read(shape, at, left, ec2):
    if shape.type_name == "structure":
        return read_structure(shape, at + ".", left, ec2)
    if shape.type_name == "list":
        out, n = [], 1
        between = "." if ec2 or shape.serialization.get("flattened") else ".%s." % shape.member.serialization.get("name", "member")
        while any(k == at + between + str(n) or k.startswith("%s%s%d." % (at, between, n)) for k in left):
            out.append(read(shape.member, at + between + str(n), left, ec2))
            n += 1
        return out
    return SCALARS.get(shape.type_name, str)(left.pop(at))


def check_answer(operation, said, ec2):
    parser = botocore.parsers.create_parser(operation.service_model.metadata["protocol"])
    shape = operation.output_shape
    parsed = parser.parse({"headers": {}, "status_code": said["status"], "body": said["answer"].encode()}, shape)
    root = strip(ET.fromstring(said["answer"]))
    if said["status"] >= 300:
        if not parsed.get("Error", {}).get("Code") or not parsed["Error"].get("Message"):
            yield "answer: botocore finds no error in %s" % said["answer"]
        return
    if not parsed["ResponseMetadata"].get("RequestId"):
        yield "answer: no request id"
    if root.tag != said["action"] + "Response":
        yield "answer: it is a %s" % root.tag
    if ec2:
        for e in root.findall("requestId"):
            root.remove(e)
    else:
        for e in root.findall("ResponseMetadata"):
            root.remove(e)
        wrapper = shape.serialization.get("resultWrapper") if shape is not None else None
        if [e.tag for e in root] != ([wrapper] if wrapper else []):
            yield "answer: it holds %s, not %s" % ([e.tag for e in root], wrapper)
            return
        root = root[0] if wrapper else root
    if shape is None:
        if len(root):
            yield "answer: the model has none, and this came: %s" % [e.tag for e in root]
        return
    yield from check_element(shape, root, said["action"], parsed)


def strip(element):
    for e in element.iter():
        e.tag = e.tag.split("}")[-1]
    return element


def check_element(shape, element, at, parsed):
    """Checks that the shape has every element, and that each parsed value has the shape's type."""
    if shape.type_name == "structure":
        names = {m.serialization.get("name", n): (n, m) for n, m in shape.members.items()}
        seen = set()
        for e in element:
            if (at.split(".")[0], e.tag) in NEWER_ELEMENTS:
                continue
            if e.tag not in names:
                yield "answer: the model has no %s.%s" % (at, e.tag)
                continue
            name, member = names[e.tag]
            if name in seen:
                yield "answer: %s.%s comes twice" % (at, e.tag)
            seen.add(name)
            yield from check_element(member, e, "%s.%s" % (at, e.tag), parsed.get(name))
        for name in shape.required_members:
            if shape.members[name].serialization.get("name", name) not in {e.tag for e in element} and shape.members[name].type_name != "list":
                yield "answer: %s.%s is missing" % (at, name)
    elif shape.type_name == "list":
        tag = shape.member.serialization.get("name", "member")
        for n, e in enumerate(element):
            if e.tag != tag:
                yield "answer: %s holds a %s" % (at, e.tag)
            else:
                yield from check_element(shape.member, e, "%s[]" % at, parsed[n])
    else:
        if len(element):
            yield "answer: %s is a %s, and has elements" % (at, shape.type_name)
        yield from check_value(shape, parsed, at)


PYTHON = {"string": str, "integer": int, "long": int, "boolean": bool, "double": float, "float": float}


def check_value(shape, value, at):
    want = PYTHON.get(shape.type_name)
    if want and not isinstance(value, want):
        yield "answer: %s is %r, not a %s" % (at, value, shape.type_name)
    if getattr(shape, "enum", None) and value not in shape.enum:
        yield "answer: %s is %r, not one of %s" % (at, value, shape.enum)


def check_json(operation, said):
    if said["target"] != TARGETS[said["service"]] + "." + said["action"]:
        yield "request: its target is %s" % said["target"]
    request = json.loads(said["request"])
    for name in NEWER.get((said["service"], said["action"]), set()):
        request.pop(name, None)
    yield from check_member(operation.input_shape, request, "request")
    answer = json.loads(said["answer"])
    if said["status"] >= 300:
        if not answer.get("__type") or not answer.get("message"):
            yield "answer: no error in %s" % said["answer"]
    elif operation.output_shape is None:
        if answer:
            yield "answer: the model has none, and this came: %s" % said["answer"]
    else:
        yield from check_member(operation.output_shape, answer, "answer")


def check_member(shape, value, at):
    if shape.type_name == "structure":
        if not isinstance(value, dict):
            yield "%s: not an object" % at
            return
        for name, v in value.items():
            if name not in shape.members:
                yield "%s: the model has no %s" % (at, name)
            else:
                yield from check_member(shape.members[name], v, "%s.%s" % (at, name))
        for name in shape.required_members:
            if name not in value:
                yield "%s: %s is missing" % (at, name)
    elif shape.type_name == "list":
        for v in value if isinstance(value, list) else [None]:
            yield from check_member(shape.member, v, at + "[]")
    elif shape.type_name == "map":
        for k, v in value.items():
            yield from check_member(shape.key, k, at)
            yield from check_member(shape.value, v, "%s.%s" % (at, k))
    elif not isinstance(value, PYTHON.get(shape.type_name, str)):
        yield "%s is %r, not a %s" % (at, value, shape.type_name)
    elif getattr(shape, "enum", None) and value not in shape.enum:
        yield "%s is %r, not one of %s" % (at, value, shape.enum)


main()
