"""Scripts over AWS Systems Manager Run Command. Only this package and inventory/ssm import boto3."""
