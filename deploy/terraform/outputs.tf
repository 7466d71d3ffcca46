output "daemons_instance_profile" {
  description = "Instance profile of the hosts of weir bootstrap."
  value       = aws_iam_instance_profile.daemons.name
}

output "node_role_arn" {
  description = "Role of the machines, for auth.verifiers.awssts of weir.yaml."
  value       = aws_iam_role.node.arn
}

output "warning_queue_url" {
  description = "aws.warning_queue_url of weir.yaml."
  value       = aws_sqs_queue.notices.url
}
